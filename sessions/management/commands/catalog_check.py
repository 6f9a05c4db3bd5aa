"""``manage.py catalog_check``: the proof of every pack and variant, in a temporary folder that is gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from faults import packs, practice, selectors, services
from faults.catalog_check import table
from faults.catalog_check.catalog import MAX_CPU_S, cases, processor_s, prove_all
from faults.catalog_check.variant import VariantProof
from faults.clock import RealClock
from faults.errors import ClusterError
from faults.services.catalog import CATALOG
from faults.temporary_tables import create_tables
from sessions.rehearsal import installation

START_SECONDS = 60.0
POLL_SECONDS = 0.1
JOBS = 2 * (os.cpu_count() or 1)
"""More than there are processors: of two jobs on one, one computes while the other waits for its cluster."""


class Command(BaseCommand):
    """Exits with 0 where every variant does what its pack says, else with 1 and the reason of each."""

    help = (
        "Prove the packs of the catalogue on practice clusters of their own, whose time is moved on, and write "
        "docs/catalogue.md. Nothing else has to run."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--scenario", metavar="SLUG", help="this pack only (default: all)")
        parser.add_argument("--variant", metavar="N", type=int, default=0, help="this variant only, from 1")
        parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"as many at once (default: {JOBS})")
        parser.add_argument(
            "--table-only",
            action="store_true",
            help="prove nothing: write the file with what it has measured of variants that have not changed",
        )
        parser.add_argument(
            "--output", metavar="FILE", type=Path, default=table.PATH, help="the file (default: docs/catalogue.md)"
        )
        parser.add_argument("--inside", action="store_true", help="the folder of this installation is temporary")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prove, here or else in a temporary folder."""
        if not options["inside"]:
            _check(options)
            self._start_inside(options)
            return
        if options["table_only"]:
            create_tables()
            proofs = list[VariantProof]()
        else:
            proofs = self._prove(options["scenario"], options["variant"], options["jobs"])
        self._write(proofs, options["output"])
        if failed := [proof for proof in proofs if not proof.ok]:
            raise CommandError(f"{len(failed)} of {len(proofs)} variants do not do what their packs say.")

    def _start_inside(self, options: dict[str, Any]) -> None:
        """Run the same command in a folder of its own, and end as it ends."""
        folder = Path(tempfile.mkdtemp(prefix="faultline-"))
        args = ["catalog_check", "--inside", "--jobs", str(options["jobs"]), "--variant", str(options["variant"])]
        args += ["--scenario", options["scenario"]] if options["scenario"] else []
        args += ["--table-only"] if options["table_only"] else []
        args += ["--output", str(options["output"].resolve())]
        try:
            command = installation.manage_command(installation.own_environment(folder), args)
            status = subprocess.run(command, check=False).returncode  # noqa: S603
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if status:
            sys.exit(status)

    def _prove(self, slug: str | None, number: int, jobs: int) -> list[VariantProof]:
        """Prove what is asked for; what every cluster begins with is computed while the database is made."""
        began, before = monotonic(), processor_s()
        with _practice_host():
            create_tables()
            found = cases([row for row in services.seed_catalog() if slug in (None, row.scenario.slug)], number)
            proofs = prove_all(found, jobs=jobs, report=_report)
            each = (processor_s() - before) / len(found)
        self.stdout.write(
            f"{len(found)} variants in {monotonic() - began:.0f} s, {each:.1f} s of processor time each"
        )
        if each > MAX_CPU_S:
            self.stderr.write(f"That is more than {MAX_CPU_S:g} s: see that nothing else runs, or make it cheaper.")
        return proofs

    def _write(self, proofs: Sequence[VariantProof], path: Path) -> None:
        """Write the table, with what it has had of variants that were not proven now."""
        known_packs = [selectors.pack_of(version) for version in services.seed_catalog()]
        known = table.read(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(table.render(known_packs, known | table.measure(known_packs, proofs)), encoding="utf-8")
        self.stdout.write(f"Wrote {path}")


def _report(proof: VariantProof) -> None:
    """Print what came of a proof, in the process that has made it."""
    name = f"{proof.slug} {proof.number}"
    if not proof.ok:
        print(f"{name}: {proof.error}", file=sys.stderr, flush=True)
        return
    repaired = ", ".join(f"{key} {seconds:.1f} s" for key, seconds in proof.fixed_s.items())
    print(
        f"{name}: symptom after {proof.symptom_s:.1f} s; repaired by {repaired}; "
        f"not by {', '.join(proof.turns) or 'anything else'}; {proof.texts} texts tell nothing",
        flush=True,
    )


def _check(options: dict[str, Any]) -> None:
    """Raise CommandError for a pack or a variant that the catalogue does not have."""
    found = {
        path.parent.name: packs.parse(packs.load_folder(path.parent)) for path in CATALOG.glob("*/scenario.yaml")
    }
    slug, number = options["scenario"], options["variant"]
    if slug is not None and slug not in found:
        raise CommandError(f"There is no scenario {slug!r}. There are: {', '.join(sorted(found))}.")
    most = max(len(pack.variants) for name, pack in found.items() if slug in (None, name))
    if not 0 <= number <= most:
        raise CommandError(f"There is no variant {number}; they are numbered from 1 to {most}.")
    if options["jobs"] < 1:
        raise CommandError(f"--jobs {options['jobs']}: at least 1 is needed.")


@contextmanager
def _practice_host() -> Iterator[None]:
    """Run a host of practice clusters at the address of the settings. Raises CommandError where it does not start."""
    command = [sys.executable, "-W", "ignore", "-m", "kubesim", "host", "--bind", "127.0.0.1"]
    command += ["--port", str(settings.KUBESIM_PORT), "--public-host", settings.PUBLIC_HOST]
    log = settings.DATA_DIR / "kubesim.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            [*command, "--data", str(settings.KUBESIM_DIR)], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _await_host(process, log)
        yield
    finally:
        installation.stop(process)


def _await_host(process: subprocess.Popen[bytes], log: Path) -> None:
    clock, waited = RealClock(), 0.0
    while True:
        try:
            practice.health()
            return
        except ClusterError as exc:
            if process.poll() is not None or waited > START_SECONDS:
                text = log.read_text(encoding="utf-8", errors="replace")
                raise CommandError(f"The practice clusters do not start:\n{text}") from exc
        clock.wait(POLL_SECONDS)
        waited += POLL_SECONDS
