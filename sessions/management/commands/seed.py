"""manage.py seed: the catalogue, our own question bank, two plans, and accounts to begin with."""

from __future__ import annotations

import secrets
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, make_password
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from faults import services as faults
from sessions.importers import banks, plans

# Titles of earlier versions: the question stays the same one, with its sessions and plans.
RENAMED = {
    "A shared cluster for ten teams": "Design: a shared cluster for ten teams",
    "Half as much again by Monday": "Design: 50 % more GPUs by Monday",
    "Answers in 200 milliseconds, for millions": "Design: model serving in 200 ms for millions of users",
    "Own hall and somebody else's": "Design: on-premises and cloud together",
    "Ten times more in three years": "Design: ten times the capacity in three years",
}
PLANS = ("demo-plan.yaml", "plan-in-parts.yaml", "pairing-exercise.yaml", "hardware-plan.yaml")
CONTENT = settings.BASE_DIR / "sessions" / "content"


class Command(BaseCommand):
    """Makes a fresh installation usable. A second run changes nothing and undoes no edit."""

    help = "Load the scenario catalogue, the question bank, our plans and, once, two accounts."

    def handle(self, *args: Any, **options: Any) -> None:
        with ThreadPoolExecutor() as threads:
            self._seed(FirstAccounts(threads))

    def _seed(self, accounts: FirstAccounts) -> None:
        scenarios = faults.seed_catalog()
        banks.rename_questions("gpu-platform-engineering", RENAMED)
        bank = banks.import_bank(banks.read_file(CONTENT / "question-bank.md"), keep_edits=True)
        written = [self._seed_plan(name) for name in PLANS]
        self.stdout.write(f"Scenarios in the catalogue: {len(scenarios)}. Questions in our bank: {bank.total}.")
        self.stdout.write(f"Plans of ours: {sum(written)} written, {len(PLANS) - sum(written)} left as they are.")
        for username, password in accounts.create().items():
            self.stdout.write(f"Account {username}, password {password} (shown only this once)")

    def _seed_plan(self, name: str) -> bool:
        """Write a plan, or follow newer scenarios; an admin may archive what it uses, so that is no failure."""
        try:
            return plans.seed_plan(plans.read_plan(CONTENT / name)) is not None
        except plans.PlanProblem as exc:
            self.stderr.write(f"The plan of {name} was left as it is: {exc}")
            return False


class FirstAccounts:
    """`admin` and `interviewer`, where nobody can sign in yet. Passwords are hashed beside what else is seeded."""

    def __init__(self, threads: Executor) -> None:
        unusable = {"password__startswith": UNUSABLE_PASSWORD_PREFIX}
        names = () if User.objects.exclude(**unusable).exists() else ("admin", "interviewer")
        self._passwords = {name: secrets.token_urlsafe(15) for name in names}
        self._hashes = {name: threads.submit(make_password, text) for name, text in self._passwords.items()}

    @transaction.atomic
    def create(self) -> dict[str, str]:
        """Create them; return their passwords, which nothing keeps. Raises CommandError where a name is taken."""
        taken = User.objects.filter(username__in=self._passwords).values_list("username", flat=True)
        if taken:
            raise CommandError(f"The account {taken[0]!r} has no password. Run: manage.py changepassword {taken[0]}")
        for name, found in self._hashes.items():
            is_admin = name == "admin"
            User.objects.create(username=name, password=found.result(), is_staff=is_admin, is_superuser=is_admin)
        return self._passwords
