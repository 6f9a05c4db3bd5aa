"""Scenario packs: a folder of YAML and Markdown that says what breaks, how it shows, and what counts as repaired."""

from faults.checks.model import Check, Condition
from faults.packs.command_blocks import commands_in
from faults.packs.course import Milestone
from faults.packs.errors import PackError
from faults.packs.files import digest, load_folder
from faults.packs.loader import parse
from faults.packs.model import Criterion, Hint, InjectStep, Solution, Variant, WrongTurn
from faults.packs.new_packs import check_new
from faults.packs.pack import Pack
from faults.packs.requires import ClusterValue, NodePool, Requires
from faults.packs.rights import AccessRule
from faults.packs.workspaces import Workspace

__all__ = [
    "AccessRule",
    "Check",
    "ClusterValue",
    "Condition",
    "Criterion",
    "Hint",
    "InjectStep",
    "Milestone",
    "NodePool",
    "Pack",
    "PackError",
    "Requires",
    "Solution",
    "Variant",
    "Workspace",
    "WrongTurn",
    "check_new",
    "commands_in",
    "digest",
    "load_folder",
    "parse",
]
