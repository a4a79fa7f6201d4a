"""The configuration of a run: its dataclasses, how they are found, and how a composed config becomes them."""

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.discovery import import_registered, jobs
from experiments.errors import UserError
from experiments.help_text import help_text
from experiments.loggers import LoggerConfig
from experiments.options import (
    build_kind,
    build_typed,
    check,
    explain,
    field_names,
    join,
    option,
    register,
    registered,
    unknown,
)

CONF = Path(__file__).resolve().parent.parent / "conf"
_KINDS = ("model", "domains", "transfer")
BASELINES = (
    "token_frequency",
    "mean_gradient",
    "mean_gradient_centred",
    "diagonal_fisher",
    "cka_label_means",
    "debiased_cka_label_means",
    "rsa_label_means",
    "svcca_label_means",
)


@register("estimator", "fishersketch")
@dataclass
class EstimatorConfig:
    """How the signatures of the domains are made and compared."""

    num_features: int = option(4096, "Features of each stream (m); a signature holds as many numbers.", min=1)
    projection: str = option(
        "block_hadamard",
        "How activations and errors are projected.",
        choices=("rademacher", "hadamard", "block_hadamard"),
    )
    signature: str = option(
        "float32", "Numbers that a stored signature is made of.", choices=("float32", "int8", "int4")
    )
    self_terms: str = option(
        "split",
        "Norms from two disjoint halves of the sequences (less biased), or plain.",
        choices=("split", "plain"),
    )
    label_mode: str = option(
        "data",
        "Labels from the text (empirical Fisher), or drawn from the model (true Fisher).",
        choices=("data", "model"),
    )
    sample_unit: str = option(
        "token", "What one sample is: a predicted token or a sequence.", choices=("token", "sequence")
    )
    label_seed: int = option(0, "Seed of the labels drawn when label_mode=model.", min=0)
    extra_streams: list[str] = option(
        [],
        "Further streams: mean_gradient (signed first moment), unit_joint (a and e of unit length), "
        "weighted_activation (for the alignment that unrelated tasks would have).",
        choices=("mean_gradient", "unit_joint", "weighted_activation"),
    )
    exact_windows: int = option(
        8, "Windows of each domain that are compared with the exact alignment as well; 0: none.", min=0
    )
    baselines: list[str] = option(
        ["token_frequency", "mean_gradient"],
        "What the alignment is compared with, from the same pass.",
        choices=BASELINES,
    )

    def check(self, key: str) -> None:
        """Checks what concerns several fields.

        Raises:
            UserError: For a stream or a baseline named twice, streams that sequences do not have, or a single
                window to split.
        """
        for name in ("extra_streams", "baselines"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise UserError(f"{key}.{name}={values}: names one twice")
        if self.exact_windows == 1 and self.self_terms == "split":
            raise UserError(
                f"{key}.exact_windows=1: split self terms need a window of each half; give 2 or more, "
                f"0 for none, or {key}.self_terms=plain"
            )
        if self.extra_streams and self.sample_unit != "token":
            raise UserError(
                f"{key}.sample_unit={self.sample_unit}: has no extra streams; set {key}.extra_streams=[]"
            )


@dataclass
class Config:
    """One run."""

    job: str = option("source_selection", "What is run: the module experiments/<job>.py.")
    seed: int = option(0, "Draws the projection, nothing else: tokens and fine-tuned rows are reused.", min=0)
    device: str = option("auto", "cpu, cuda, cuda:N, or auto: the first GPU where there is one.")
    store: str = option("runs", "Folder that gets the run folders.")
    smoke: bool = option(False, "true marks a check of the machinery, whose numbers are no result.")
    model: Any = option(None, "The model whose head is sketched.")
    domains: Any = option(None, "The candidate sources and targets.")
    estimator: EstimatorConfig = option(EstimatorConfig(), "How signatures are made.")
    transfer: Any = option(None, "How sources are fine-tuned for the truth.")
    logger: LoggerConfig = option(LoggerConfig(), "Where a copy of the run goes.")
    settings: Any = option(None, "The job's own settings, where it has any.")
    target: Any = option(None, "Shorthand of settings.target, for experiment=select.")
    sources: Any = option(None, "Shorthand of settings.sources, for experiment=select.")

    def check(self, key: str) -> None:
        """Checks the fields that `option` cannot.

        Raises:
            UserError: For a job that does not exist.
        """
        if self.job not in jobs():
            raise UserError(f"job={self.job}: must be one of {', '.join(jobs())}")


@cache
def discover() -> None:
    """Stores the schemas of a config and of all its kinds, and the resolvers that conf/config.yaml uses.

    Raises:
        UserError: With the module that cannot be imported.
    """
    import_registered()
    ConfigStore.instance().store(name="schema", node=Config)
    # A launcher copies the resolvers into its workers, where this is called again.
    OmegaConf.register_new_resolver("folder", _folder, replace=True)
    # Hydra reads a dollar sign in its help template as a placeholder.
    OmegaConf.register_new_resolver(
        "help_text", lambda: help_text(CONF, Config).replace("$", "$$"), replace=True
    )


def _folder(key: str, path: str) -> str:
    # Hydra makes run folders before a config is checked, and "" would put them at the root of the disk.
    if not path.strip():
        raise UserError(f"{key}={path!r}: must be the name of a folder")
    return path


def load(raw: DictConfig) -> Config:
    """Makes the dataclasses of a composed config and checks every value.

    Args:
        raw: What Hydra composed under the ``schema``.

    Returns:
        The config, with nothing left to resolve.

    Raises:
        UserError: With the dotted key and the value.
    """
    discover()
    try:
        cfg = cast(Config, OmegaConf.to_object(raw))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    _refuse_additions(raw, "")
    for group in _KINDS:
        if not dataclasses.is_dataclass(getattr(cfg, group)):
            setattr(cfg, group, build_kind(group, getattr(cfg, group), group))
    own = registered("settings").get(cfg.job)
    if own is None and cfg.settings is not None:
        raise UserError(f"settings: job={cfg.job} has none")
    if own is not None and not isinstance(cfg.settings, own):
        cfg.settings = build_typed(own, cfg.settings or {}, "settings")
    for name in ("target", "sources"):
        if getattr(cfg, name) is not None and not hasattr(cfg.settings, name):
            raise UserError(f"{name}: job={cfg.job} takes none; experiment=select does")
    check(cfg)
    return cfg


def resolved(raw: DictConfig) -> dict[str, Any]:
    """Returns a composed config as plain values, each part with the ``kind`` of its dataclass.

    Args:
        raw: What Hydra composed.

    Raises:
        UserError: For an interpolation that leads nowhere.
    """
    try:
        plain = cast(dict[str, Any], OmegaConf.to_container(raw, resolve=True))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    own = registered("settings").get(plain["job"])
    if own is not None and plain["settings"] is None:
        plain["settings"] = OmegaConf.to_container(OmegaConf.structured(own))
    for group, content in plain.items():
        for kind, cls in registered(group).items():
            if cls is OmegaConf.get_type(raw, group):
                plain[group] = {"kind": kind} | content
    return plain


def compose_run(overrides: list[str]) -> tuple[dict[str, Any], Config]:
    """Composes the config of a run without running it.

    Args:
        overrides: As on the command line.

    Returns:
        The resolved config as plain values, and as dataclasses.
    """
    discover()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        raw = compose("config", overrides)
    return resolved(raw), load(raw)


def _refuse_additions(node: DictConfig, key: str) -> None:
    # What ``+key=value`` adds to a dataclass, no code reads.
    cls = OmegaConf.get_type(node)
    for name in node:
        if dataclasses.is_dataclass(cls) and name not in field_names(cls):
            raise UserError(unknown(join(key, name), str(name), field_names(cls)))
        if OmegaConf.is_dict(node[name]):
            _refuse_additions(node[name], join(key, name))
