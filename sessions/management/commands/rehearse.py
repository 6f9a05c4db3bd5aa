"""``manage.py rehearse``: the whole interview with no person, to see that an installation works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.clock import RealClock
from faults.errors import KubeconfigRefused
from faults.kube.config import MAX_BYTES, parse
from faults.models import ScenarioVersion
from faults.packs import Solution
from sessions import selectors
from sessions.models import PlanVersion
from sessions.rehearsal import installation, interruption
from sessions.rehearsal.plan import PlanRehearsal
from sessions.rehearsal.run import LINE_DURATIONS, Print, Rehearsal, Report

SCENARIO = "architecture-mismatch"
"""The scenario that is rehearsed by default: the pack of the demo plan, which is over within seconds."""
START_SECONDS = 60
POLL_SECONDS = 0.1
Asked = Callable[[], bool]


class Command(BaseCommand):
    """Exits with 0 where every step came out as it must and nothing was left behind, else with 1."""

    help = (
        "Run a whole interview with no person, against the running installation or else a temporary one: prepare, "
        "confirm the symptom, repair with the candidate's own credentials, hold, rate, end, release, export."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--scenario", metavar="SLUG", help=f"which scenario (default: {SCENARIO})")
        parser.add_argument("--plan", metavar="SLUG", help="a whole plan, part by part, in place of one scenario")
        parser.add_argument("--solution", metavar="N", type=int, default=1, help="which reference solution, from 1")
        parser.add_argument("--variant", metavar="N", type=int, help="which variant, from 1 (default: drawn)")
        parser.add_argument(
            "--all", action="store_true", help="every variant of every scenario (of one, with --scenario), one by one"
        )
        parser.add_argument(
            "--kubeconfig",
            metavar="FILE",
            type=Path,
            help="a cluster to rehearse on in place of a practice cluster, with credentials inside the file; "
            "give it simulated nodes by: python -m kubesim nodes --untainted",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object, one a line with --all; the steps go to stderr"
        )
        parser.add_argument("--output", metavar="DIR", type=Path, help="where the scorecard goes")
        parser.add_argument(
            "--wait",
            metavar="SECONDS",
            type=float,
            help="wait for an installation that is starting here; never start a temporary one",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rehearse, and say what is wrong as one object where that was asked for."""
        self.reported = False
        try:
            self._handle(options)
        except CommandError as exc:
            if options["json"] and not self.reported:
                self.stdout.write(json.dumps({"ok": False, "error": str(exc)}))
            raise

    def _handle(self, options: dict[str, Any]) -> None:
        kubeconfig = _kubeconfig(options["kubeconfig"])
        output = (options["output"] or settings.DATA_DIR / "rehearsals").resolve()
        with interruption.noticed() as interrupted:
            if options["wait"] is not None:
                self._await_installation(options["wait"], interrupted)
            elif missing := installation.missing():
                self._say(options, f"Not running here: {', '.join(missing)}. Starting a temporary installation.")
                self._rehearse_elsewhere(options, output, interrupted)
            if options["plan"]:
                self._rehearse_plan(options, output, interrupted, kubeconfig)
            elif options["all"]:
                self._rehearse_all(options, output, interrupted, kubeconfig)
            else:
                self._rehearse(options, output, interrupted, kubeconfig)

    def _rehearse(self, options: dict[str, Any], output: Path, interrupted: Asked, kubeconfig: str) -> None:
        version, variant = _scenario(options["scenario"]), options["variant"]
        if variant is not None:
            _check_variant(version, variant)
        solution = _solution(version, options["solution"], variant or 1)
        said: Print = lambda line: self._say(options, line)  # noqa: E731
        report = Rehearsal(version, solution, output, said, interrupted, kubeconfig, variant or 0).run()
        self.reported = True
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
        else:
            self._summarise(report)
        if not report.ok:
            raise CommandError(report.error or f"{len(report.residue or [])} difference(s) were left behind.")

    def _rehearse_all(self, options: dict[str, Any], output: Path, interrupted: Asked, kubeconfig: str) -> None:
        """Rehearse one variant after another, and tell of each as soon as it is done."""
        if options["variant"] is not None:
            raise CommandError("--all rehearses every variant; leave out --variant.")
        said: Print = lambda line: self._say(options, line)  # noqa: E731
        results: list[Report] = []
        for version, variant in _variants(options["scenario"]):
            if why := _unfit(version, lent=bool(kubeconfig)):
                said(f"{version.scenario.slug} {variant}: left out, since {why}")
                continue
            solution = _solution(version, options["solution"], variant)
            results.append(Rehearsal(version, solution, output, said, interrupted, kubeconfig, variant).run())
            self._tell(options, results[-1])
            if interrupted():
                break
        self.reported = True
        if failed := [report for report in results if not report.ok]:
            raise CommandError(f"{len(failed)} of {len(results)} rehearsals failed.")

    def _rehearse_plan(self, options: dict[str, Any], output: Path, interrupted: Asked, kubeconfig: str) -> None:
        """Play a plan, and tell of each part as soon as it is done, and of the whole at the end."""
        if others := [name for name in ("scenario", "variant", "all") if options[name]]:
            raise CommandError(f"--plan plays what the plan says; leave out --{others[0]}.")

        plan = _plan(options["plan"])
        bound = [
            version.title for version in plan.scenarios.order_by("pk") if kubeconfig and _needs_practice(version)
        ]
        if bound:
            raise CommandError(f"{', '.join(f'“{title}”' for title in bound)}: not without a practice cluster.")

        def tell(part: dict[str, Any]) -> None:
            if options["json"]:
                self.stdout.write(json.dumps(part))
            else:
                self.stdout.write(f"Part {part['part']}, {part['title']}: {'done' if part['ok'] else 'not done'}")
            self.stdout.flush()

        said: Print = lambda line: self._say(options, line)  # noqa: E731
        rehearsal = PlanRehearsal(plan, output, said, tell, interrupted, kubeconfig)
        report = rehearsal.run()
        self.reported = True
        if options["json"]:
            self.stdout.write(json.dumps(rehearsal.as_dict()))
        else:
            self._summarise(report)
        if not report.ok:
            raise CommandError(report.error or f"{len(report.residue or [])} difference(s) were left behind.")

    def _tell(self, options: dict[str, Any], report: Report) -> None:
        """Print one line about one of many."""
        told = report.as_line()
        if options["json"]:
            self.stdout.write(json.dumps(told))
        else:
            seconds = ", ".join(f"{name} {told[name]}" for name in LINE_DURATIONS)
            self.stdout.write(f"{report.scenario} {report.variant}: {report.error or seconds}")
        self.stdout.flush()

    def _rehearse_elsewhere(self, options: dict[str, Any], output: Path, interrupted: Asked) -> NoReturn:
        """Run the same command inside a temporary installation, and end as it ends."""
        args = ["rehearse", "--wait", str(START_SECONDS), "--output", str(output)]
        args += ["--solution", str(options["solution"])]
        args += ["--scenario", options["scenario"]] if options["scenario"] else []
        args += ["--variant", str(options["variant"])] if options["variant"] is not None else []
        args += ["--all"] if options["all"] else []
        args += ["--plan", options["plan"]] if options["plan"] else []
        args += ["--kubeconfig", str(options["kubeconfig"].resolve())] if options["kubeconfig"] else []
        args += ["--json"] if options["json"] else []
        with installation.temporary() as site:
            sys.exit(_watch_over(site, site.manage(*args), interrupted))

    def _await_installation(self, seconds: float, interrupted: Asked) -> None:
        clock = RealClock()
        end = clock.now().timestamp() + seconds
        while missing := installation.missing():
            if interrupted() or clock.now().timestamp() > end:
                raise CommandError(f"Not running after {seconds:.0f} s: {', '.join(missing)}. Run: make run")
            clock.wait(POLL_SECONDS)

    def _summarise(self, report: Report) -> None:
        for name, seconds in report.durations.items():
            self.stdout.write(f"{name:<58} {seconds:8.2f} s")
        for path in report.scorecard.values():
            self.stdout.write(path)
        for commands in report.run_by_hand:
            self.stderr.write(f"Run by hand:\n{commands}")
        if report.ok:
            self.stdout.write(self.style.SUCCESS(f"{report.scenario}: rehearsed, repaired, reverted, nothing left."))

    def _say(self, options: dict[str, Any], line: str) -> None:
        stream = self.stderr if options["json"] else self.stdout
        stream.write(line, style_func=str)
        stream.flush()


def _kubeconfig(path: Path | None) -> str:
    """Return the text of a kubeconfig within the allow-list; empty without one. Raises CommandError."""
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8", "replace")
        parse(text)
    except OSError as exc:
        raise CommandError(f"{path}: {exc.strerror}. Give a kubeconfig that can be read.") from exc
    except KubeconfigRefused as exc:
        raise CommandError(f"{path}: {exc} (kubectl config view --flatten --minify writes one that fits.)") from exc
    return text


def _plan(slug: str) -> PlanVersion:
    versions = {version.plan.slug: version for version in selectors.plans()}
    if slug not in versions:
        raise CommandError(f"There is no plan {slug!r}. There are: {', '.join(sorted(versions)) or 'none'}.")
    return versions[slug]


def _scenario(slug: str | None) -> ScenarioVersion:
    slug = slug or SCENARIO
    return _scenarios(slug)[slug]


def _scenarios(slug: str | None) -> dict[str, ScenarioVersion]:
    """Return every scenario by its slug, the one of ``slug`` among them. Raises CommandError."""
    fault_services.seed_catalog()
    versions = {version.scenario.slug: version for version in selectors.pickable_scenarios()}
    if not versions:
        raise CommandError("There is no scenario. Run: .venv/bin/python manage.py seed")
    if slug is not None and slug not in versions:
        raise CommandError(f"There is no scenario {slug!r}. There are: {', '.join(sorted(versions))}.")
    return versions


def _variants(slug: str | None) -> list[tuple[ScenarioVersion, int]]:
    """Return every variant of every scenario, or of one."""
    return [
        (version, number)
        for name, version in sorted(_scenarios(slug).items())
        if slug in (None, name)
        for number in range(1, len(fault_selectors.pack_of(version).variants) + 1)
    ]


def _unfit(version: ScenarioVersion, *, lent: bool) -> str:
    """Return why a scenario cannot be rehearsed; empty where it can."""
    pack = fault_selectors.pack_of(version)
    if not pack.checks:
        return "it is only spoken about"
    return "it needs a practice cluster" if lent and _needs_practice(version) else ""


def _needs_practice(version: ScenarioVersion) -> bool:
    return "dedicated" not in fault_selectors.pack_of(version).requires.tiers


def _check_variant(version: ScenarioVersion, number: int) -> None:
    count = len(fault_selectors.pack_of(version).variants)
    if not 1 <= number <= count:
        raise CommandError(f"{version.title} has the variants 1 to {count}; there is no {number}.")


def _solution(version: ScenarioVersion, number: int, variant: int) -> Solution:
    pack = fault_selectors.pack_of(version)
    solutions = pack.bind(parameters=pack.variants[variant - 1]).solutions
    if not 1 <= number <= len(solutions):
        raise CommandError(f"{version.title} has the solutions 1 to {len(solutions)}; there is no {number}.")
    return solutions[number - 1]


def _watch_over(site: installation.Temporary, rehearsal: subprocess.Popen[bytes], interrupted: Asked) -> int:
    """Return the rehearsal's exit status; CommandError where the installation ends before it."""
    try:
        while not interrupted():
            with suppress(subprocess.TimeoutExpired):
                return rehearsal.wait(timeout=POLL_SECONDS)
            if site.supervisor.poll() is not None:
                raise CommandError(f"The temporary installation ended:\n{site.log_tail()}")
    finally:
        installation.stop(rehearsal)
    raise CommandError("Interrupted.")
