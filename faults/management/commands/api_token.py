"""``manage.py api_token``: issue, list and revoke tokens of the fault injection API."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from faults import services
from faults.errors import FaultError
from faults.models import ApiToken, Cluster
from faults.services.api_tokens import SCOPES


class Command(BaseCommand):
    """Prints a new token once; afterwards only its hash is known."""

    help = "Tokens with which programs use the fault injection API of one cluster."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the three actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        issue = actions.add_parser("issue", help="make a token and print it, this once")
        issue.add_argument("name", help="who uses it, and for what")
        issue.add_argument("--cluster", required=True, help="name of the cluster in which it may act")
        issue.add_argument("--scope", action="append", required=True, choices=SCOPES, help="may be given repeatedly")
        issue.add_argument("--days", type=int, default=30, help="until it expires (30)")
        actions.add_parser("list", help="list the tokens, never their secrets")
        revoke = actions.add_parser("revoke", help="let a token open nothing any more")
        revoke.add_argument("uuid", help="as `list` prints it")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do one of them."""
        {"issue": self._issue, "list": self._list, "revoke": self._revoke}[options["action"]](options)

    def _issue(self, options: dict[str, Any]) -> None:
        cluster = Cluster.objects.filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['cluster']!r}; add it in the admin.")
        try:
            row, secret = services.issue_api_token(
                name=options["name"],
                cluster=cluster,
                scopes=options["scope"],
                days=options["days"],
                by="command line",
            )
        except FaultError as exc:
            raise CommandError(str(exc)) from exc
        self.stderr.write(f"{row.uuid} for {cluster}, until {row.expires_at:%Y-%m-%d}. The token is told this once:")
        self.stdout.write(secret)

    def _list(self, options: dict[str, Any]) -> None:
        for token in ApiToken.objects.select_related("cluster"):
            state = "revoked" if token.revoked_at else f"until {token.expires_at:%Y-%m-%d}"
            self.stdout.write(f"{token.uuid}  {token.cluster}  {token.scopes}  {state}  {token.name}")

    def _revoke(self, options: dict[str, Any]) -> None:
        try:
            token = ApiToken.objects.select_related("cluster").get(uuid=options["uuid"])
        except (ApiToken.DoesNotExist, ValueError) as exc:
            raise CommandError(f"There is no token {options['uuid']!r}; see: manage.py api_token list") from exc
        done = services.revoke_api_token(token=token, by="command line")
        self.stdout.write(f"{token.name} is revoked." if done else f"{token.name} was revoked before.")
