"""Documented fields, their ranges, and the errors that name a dotted key and its value."""

from dataclasses import dataclass
from typing import Any

import pytest
from omegaconf import MISSING, OmegaConf

from experiments.errors import UserError
from experiments.options import build_kind, build_typed, check, option, register, registered


@dataclass
class Inner:
    share: float = option(0.5, "A share.", min=0, max=1)


@register("test_options", "plain")
@dataclass
class Plain:
    name: str = option(MISSING, "A name.")
    size: int = option(3, "A size.", min=1)
    seeds: list[int] = option([0], "Seeds.", min=0)
    mode: str | None = option(None, "A mode.", choices=("a", "b"))
    on: bool = option(False, "A switch.")
    inner: Inner = option(Inner(), "An inner part.")
    table: dict[str, Any] = option({}, "Anything.")

    def check(self, key: str) -> None:
        if self.on and self.mode is None:
            raise UserError(f"{key}.on=true: needs a mode")


def test_a_typed_part_is_built_from_yaml_content():
    content = OmegaConf.create({
        "name": "x",
        "size": "4",
        "inner": {"share": 0.25},
        "table": {"n": "${..size}"},
    })
    built = build_typed(Plain, content, "domains.entries.es")
    assert built == Plain(name="x", size=4, inner=Inner(0.25), table={"n": "4"})
    assert build_kind("test_options", {"kind": "plain", "name": "x"}, "k") == Plain(name="x")


def test_defaults_are_not_shared_between_instances():
    Plain(name="x").seeds.append(7)
    Plain(name="x").inner.share = 0.1
    assert Plain(name="y").seeds == [0]
    assert Plain(name="y").inner.share == 0.5


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({}, "d.es.name: must be set"),
        ({"name": "x", "siez": 1}, "d.es.siez: no such setting; did you mean size?"),
        (
            {"name": "x", "foo": 1},
            "d.es.foo: no such setting; known: inner, mode, name, on, seeds, size, table",
        ),
        ({"name": "x", "size": "big"}, "d.es.size=big: must be an integer"),
        ({"name": "x", "size": 2.5}, "d.es.size=2.5: must be an integer"),
        ({"name": "x", "size": None}, "d.es.size: must not be null"),
        ({"name": "x", "size": 0}, "d.es.size=0: must be at least 1"),
        ({"name": "x", "seeds": [0, -1]}, "d.es.seeds=-1: must be at least 0"),
        ({"name": "x", "seeds": ["one"]}, r"d.es.seeds\[0\]=one: must be an integer"),
        ({"name": "x", "seeds": 3}, r"d.es.seeds: must be a list, as \[1,2\]"),
        ({"name": "x", "mode": "c"}, "d.es.mode=c: must be one of a, b"),
        ({"name": "x", "on": "maybe"}, "d.es.on=maybe: must be true or false"),
        ({"name": {"a": 1}}, "d.es.name: must be text"),
        ({"name": "x", "inner": {"share": 1.5}}, "d.es.inner.share=1.5: must be at most 1"),
        ({"name": "x", "inner": {"share": float("nan")}}, "d.es.inner.share=nan: must be a number"),
        ({"name": "x", "inner": {"shares": 1}}, "d.es.inner.shares: no such setting; did you mean share?"),
        ({"name": "x", "on": True}, "d.es.on=true: needs a mode"),
        (["name"], r"d.es=\['name'\]: must be a mapping of name, size"),
    ],
)
def test_a_mistake_names_the_dotted_key_and_the_value(content, line):
    with pytest.raises(UserError, match=f"^{line}"):
        build_typed(Plain, content, "d.es")


def test_a_kind_is_one_that_is_registered():
    with pytest.raises(UserError, match="^d.es.kind=plan: must be one of plain$"):
        build_kind("test_options", {"kind": "plan"}, "d.es")
    with pytest.raises(UserError, match="^d.es.kind: must be set, to one of plain$"):
        build_kind("test_options", {"name": "x"}, "d.es")
    assert registered("test_options") == {"plain": Plain}
    assert registered("nothing") == {}


def test_ranges_are_checked_inside_lists_and_mappings():
    with pytest.raises(UserError, match=r"^parts\.a\[1\]\.share=2: must be at most 1$"):
        check({"a": [Inner(), Inner(2)]}, "parts")


def test_what_no_yaml_could_change_is_not_registered():
    with pytest.raises(TypeError, match="must be a dataclass that is not frozen"):

        @register("test_options", "frozen")
        @dataclass(frozen=True)
        class Frozen:
            size: int = 1

    with pytest.raises(TypeError, match="must be a dataclass that is not frozen"):
        register("test_options", "bare")(int)
    with pytest.raises(TypeError, match="schema/test_options/plain is .*Plain already"):
        register("test_options", "plain")(Inner)
