"""The paper's claims as data, and what a run says about one."""

import operator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import AnalysisError
from analysis.load import RunFolder
from analysis.lookup import MISSING, look_up
from analysis.tables import shown

HERE = Path(__file__).parent
VERDICTS = ("reproduced", "partly", "not", "not run")
OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Gap(Exception):
    """A number that a claim needs and a run does not hold."""


@dataclass(frozen=True)
class PaperNumber:
    """One number of the paper.

    Attributes:
        value: a number, or a formula as text.
        unit: what it counts.
        experiment: where it stands in the paper.
        model: the model it was measured on.
        inferred: whether it is our reading and not the paper's word.
    """

    value: float | str
    unit: str
    experiment: str
    model: str
    inferred: bool = False

    def __str__(self) -> str:
        return f"{self.value} {self.unit}" + (" (inferred)" if self.inferred else "")


@dataclass(frozen=True)
class Claim:
    """One claim and its rule.

    Attributes:
        id: name of the claim.
        claim: the claim in words.
        paper: the numbers it rests on.
        job: whose runs speak about it.
        value: dotted key of our number.
        data: names of the only data whose runs do; none for any.
        interval: dotted key of its two ends, or None.
        beside: keys shown beside it.
        reproduced: conditions that all hold when it is reproduced.
        partly: conditions that all hold when it is partly so.
    """

    id: str
    claim: str
    paper: list[PaperNumber]
    job: str
    value: str
    data: list[str] = field(default_factory=list)
    interval: str | None = None
    beside: list[str] = field(default_factory=list)
    reproduced: list[str] = field(default_factory=list)
    partly: list[str] = field(default_factory=list)

    @property
    def rule(self) -> str:
        """The rule in one line."""
        parts = [f"reproduced if {' and '.join(self.reproduced)}"]
        if self.partly:
            parts.append(f"partly if {' and '.join(self.partly)}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Finding:
    """What one run says about a claim.

    Attributes:
        verdict: one of `VERDICTS`.
        value: our number as text.
        low: lower end of its interval, or why there is none.
        high: upper end.
        beside: other numbers of the run.
        gap: what is missing, or an empty text.
    """

    verdict: str
    value: str
    low: str
    high: str
    beside: str
    gap: str = ""


def read_paper(file: Path = HERE / "paper.yaml") -> dict[str, PaperNumber]:
    """The paper's numbers by their names.

    Args:
        file: the data.

    Returns:
        All of them.
    """
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {name: PaperNumber(**entry) for name, entry in content["numbers"].items()}


def read_claims(file: Path = HERE / "claims.yaml") -> list[Claim]:
    """The claims, in the order of the file.

    Args:
        file: the data.

    Returns:
        All of them, their conditions checked.

    Raises:
        AnalysisError: a claim rests on an unknown number or has a condition that cannot be read.
    """
    numbers = read_paper()
    claims = []
    for entry in yaml.safe_load(file.read_text(encoding="utf-8")):
        unknown = [name for name in entry["paper"] if name not in numbers]
        if unknown:
            raise AnalysisError(f"{file}: claim {entry['id']!r} rests on {unknown[0]!r}, not in paper.yaml")
        claim = Claim(**(entry | {"paper": [numbers[name] for name in entry["paper"]]}))
        for condition in claim.reproduced + claim.partly:
            words = condition.split()
            if len(words) not in (3, 5) or words[1] not in OPERATORS or (len(words) == 5 and words[3] != "*"):
                raise AnalysisError(f"{file}: claim {claim.id!r} has a condition that is none: {condition!r}")
        claims.append(claim)
    return claims


def judge(claim: Claim, run: RunFolder) -> Finding:
    """What a run says about a claim.

    Args:
        claim: the claim.
        run: a finished run of the claim's job.

    Returns:
        The finding; a number that the run does not hold is a gap with the verdict ``not run``.
    """
    try:
        value = shown(_number(run, claim.value))
        low, high = ("not computed", "not computed")
        if claim.interval:
            low, high = (shown(_number(run, f"{claim.interval}.{end}")) for end in (0, 1))
        rules = {"reproduced": claim.reproduced, "partly": claim.partly}
        met = [name for name, rule in rules.items() if rule and all(_holds(run, part) for part in rule)]
    except Gap as gap:
        return Finding("not run", "not run", "not run", "not run", "not run", f"{run.path.name}: {gap}")
    beside = ", ".join(f"{key} = {_beside(run, key)}" for key in claim.beside)
    return Finding((met or ["not"])[0], value, low, high, beside or "none")


def _holds(run: RunFolder, condition: str) -> bool:
    left, sign, *right = condition.split()
    limit = _side(run, right[0]) * (_side(run, right[2]) if len(right) == 3 else 1.0)
    return bool(OPERATORS[sign](_side(run, left), limit))


def _side(run: RunFolder, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return _number(run, word)


def _number(run: RunFolder, key: str) -> float:
    value: Any = look_up(run.metrics, key)
    if value is MISSING:
        raise Gap(f"the run holds no {key}")
    if value is None:
        raise Gap(f"{key} is undefined in the run")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Gap(f"{key} is no number in the run")
    return float(value)


def _beside(run: RunFolder, key: str) -> str:
    value = look_up(run.metrics, key)
    return "not in run" if value is MISSING else shown(value)
