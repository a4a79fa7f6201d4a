"""Rank the user's own texts as sources for a target by Fisher alignment, with what the ranking is worth."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.config import Config, EstimatorConfig
from experiments.errors import NotFiniteDomain, UserError
from experiments.files import file_stems
from experiments.models.base import LoadedModel
from experiments.options import option, register
from experiments.progress import progress
from experiments.selecting.blocks import block_sketches, merged
from experiments.selecting.candidates import Candidate, find_sources, find_target
from experiments.selecting.noise import Difference, difference_of_two
from experiments.selecting.reading import BLOCKS, Sample, TooLittleError, read_sample
from experiments.selecting.words import coupling_is_clear, describe
from experiments.store import Store
from fishersketch import FisherSketch, TaskSignature
from fishersketch.errors import FisherSketchError
from fishersketch.ranking import TargetAlignment, align_to, difference_of
from fishersketch.sampling import stderr_sampling

_SHARED = 0.1  # share of the target's lines that makes a source suspicious


@register("settings", "select")
@dataclass
class SelectSettings:
    """What is ranked, and how much of it is read."""

    target: Any = option(None, "The text to rank for: a file, a folder, or a domain entry with its kind.")
    sources: Any = option(
        None, "The texts to rank: a folder (each file or subfolder is one), a glob, a list, domain entries."
    )
    field: str | None = option(
        None, "Field or column that holds the text; null for the only one, or the one named text or content."
    )
    tokens: int = option(2048, "Tokens read of each text, from its start, at most.", min=1)
    window_tokens: int = option(64, "Predicted tokens of a window.", min=1)

    def check(self, key: str) -> None:
        """Checks that there is room for the blocks of the sampling error.

        Raises:
            UserError: There is not.
        """
        if self.tokens < BLOCKS * self.window_tokens:
            raise UserError(
                f"{key}.tokens={self.tokens}: must be at least {BLOCKS} x {key}.window_tokens, "
                f"{BLOCKS * self.window_tokens}"
            )


@dataclass(frozen=True)
class _Ranked:
    """A text with its signature; a signature from a library has neither sample nor blocks."""

    candidate: Candidate
    signature: TaskSignature
    sample: Sample | None
    stderr_sampling: float

    @property
    def num_tokens(self) -> int:
        return sum(self.signature.num_samples) if self.sample is None else self.sample.num_tokens


def run(cfg: Config, store: Store) -> None:
    """Reads, sketches and ranks the sources.

    Args:
        cfg: The run's configuration.
        store: Where results go.

    Raises:
        UserError: The target cannot be read or is too short, or no source is left to rank.
    """
    settings: SelectSettings = cfg.settings
    for name, example in (("target", "my.jsonl"), ("sources", "folder")):
        if getattr(settings, name) in (None, "", [], {}):
            raise UserError(f"{name}: must be set, as in {name}={example}")
    target = find_target(settings.target, settings.field)
    sources, left_out = find_sources(settings.sources, settings.field)
    job = _Job(cfg, store, left_out)
    with store.timed("model"):
        job.load()
    with store.timed("sketch"):
        sample = job.read(target)
        blocks = job.blocks(target.name, sample)
        signature = merged(blocks).signature(cfg.estimator.signature)
        ranked = [
            found
            for source in progress(sources, "sources")
            if (found := job.source(source, target, sample, signature, blocks)) is not None
        ]
    if not ranked:
        name, reason = next(iter(left_out.items()))
        raise UserError(f"sources: none is left to rank; {name}: {reason}")
    terms = cfg.estimator.self_terms
    table = align_to(signature, [one.signature for one in ranked], terms)
    ranking, order = _ranking(ranked, table, sample), table.order
    if not torch.isfinite(table.joint).any():
        raise UserError(
            f"target={target.origin}: no alignment with it is defined, as its text is too short for split "
            "self terms; give it more text, or set estimator.self_terms=plain"
        )
    noise = None
    if len(order) > 1 and torch.isfinite(table.joint[order[:2]]).all():
        best = [(ranked[i].signature, job.blocks_again(ranked[i])) for i in order[:2]]
        noise = difference_of_two((signature, blocks), best[0], best[1], terms)
    warnings = [*job.warnings(ranked, sample), *_noise_lines(noise, ranking, cfg, sample)]
    for line in warnings:
        store.log.warning(line)
    named = [(one.candidate.name, one.signature) for one in ranked]
    _save_signatures(store, [(target.name, signature), *named])
    store.write_metrics({
        "model": cfg.model.name,
        "data": f"{target.name} against {len(ranked)} source{'s' * (len(ranked) > 1)}",
        "target": {"name": target.name, "path": target.origin, "n_tokens": sample.num_tokens},
        "ranking": ranking,
        "left_out": [{"source": name, "reason": reason} for name, reason in left_out.items()],
        "noise": None if noise is None else _noise(noise, ranking),
        "warnings": warnings,
        "n_tokens": sample.num_tokens + sum(one.num_tokens for one in ranked),
        "seed": cfg.seed,
        "self_terms": terms,
        "seconds": store.seconds,
    })


class _Job:
    """The model and the settings of a run, and which sources are left out and why."""

    def __init__(self, cfg: Config, store: Store, left_out: dict[str, str]) -> None:
        self._cfg, self._store, self._left_out = cfg, store, left_out
        self._estimator: EstimatorConfig = cfg.estimator
        self._loaded: LoadedModel

    def load(self) -> None:
        self._loaded = self._cfg.model.build(torch.device(self._cfg.device))
        width = self._cfg.settings.window_tokens + 1
        if self._loaded.tokenizer is None:
            raise UserError(f"model.name={self._cfg.model.name}: has no tokenizer; choose a language model")
        if self._loaded.context_length is not None and width > self._loaded.context_length:
            raise UserError(
                f"settings.window_tokens={width - 1}: must be less than the model's context of "
                f"{self._loaded.context_length} tokens"
            )

    def read(self, text: Candidate) -> Sample:
        settings = self._cfg.settings
        try:
            return read_sample(
                text.documents(), self._loaded.tokenizer, settings.tokens, settings.window_tokens
            )
        except TooLittleError as error:
            raise UserError(f"{text.origin}: {error}") from None

    def blocks(self, name: str, sample: Sample) -> list[FisherSketch]:
        return block_sketches(
            self._estimator, self._loaded, sample.windows, self._cfg.seed, name, self._store.cache
        )

    def blocks_again(self, one: _Ranked) -> list[FisherSketch] | None:
        return None if one.sample is None else self.blocks(one.candidate.name, one.sample)

    def source(
        self,
        source: Candidate,
        target: Candidate,
        target_sample: Sample,
        target_signature: TaskSignature,
        target_blocks: list[FisherSketch],
    ) -> _Ranked | None:
        """Returns a source ready to be ranked, or None and the reason in what is left out."""
        try:
            if source.signature is not None:
                signature = _library_signature(source.signature, target_signature, self._estimator.self_terms)
                return _Ranked(source, signature, None, float("nan"))
            sample = self._read_other(source, target, target_sample)
        except FisherSketchError as error:
            self._leave_out(source, error)
            return None
        try:
            blocks = self.blocks(source.name, sample)
        except NotFiniteDomain as error:
            self._leave_out(source, error)
            return None
        signature = merged(blocks).signature(self._estimator.signature)
        sampling = stderr_sampling([target_blocks, blocks], self._estimator.self_terms)
        return _Ranked(source, signature, sample, float(sampling[0, 1]))

    def _leave_out(self, source: Candidate, error: FisherSketchError) -> None:
        self._left_out[source.name] = str(error)
        self._store.log.warning("left out %s: %s", source.name, error)

    def _read_other(self, source: Candidate, target: Candidate, target_sample: Sample) -> Sample:
        for file in source.files & target.files:
            raise UserError(f"holds {file.name}, a file of the target {target.name}")
        sample = self.read(source)
        if torch.equal(sample.windows, target_sample.windows):
            raise UserError(f"holds the same text as the target {target.name}")
        return sample

    def warnings(self, ranked: list[_Ranked], target: Sample) -> list[str]:
        """Returns a line for each source that shares text with the target or with another source."""
        lines: list[str] = []
        seen: dict[bytes, str] = {}
        for one in ranked:
            if one.sample is None:
                continue
            share = target.share_in(one.sample)
            if share >= _SHARED:
                lines.append(
                    f"{one.candidate.name} holds {share:.0%} of the target's lines too: its score may come "
                    "from the shared text"
                )
            content = one.sample.windows.numpy().tobytes()
            if content in seen:
                lines.append(f"{one.candidate.name} holds the same text as {seen[content]}")
            seen.setdefault(content, one.candidate.name)
        return lines


def _library_signature(path: Path, target: TaskSignature, self_terms: str) -> TaskSignature:
    signature = TaskSignature.load(path)
    difference = difference_of(signature, target)
    if difference:
        raise UserError(f"{path}: cannot be compared with the target: {difference}")
    if self_terms not in signature.self_terms:
        raise UserError(f"{path}: has no {self_terms} self terms; set estimator.self_terms=plain")
    return signature


def _ranking(ranked: list[_Ranked], table: TargetAlignment, target: Sample) -> list[dict[str, Any]]:
    names = ("activation", "error", "coupling")
    factors = {name: getattr(table, name).tolist() for name in names}
    pairs = zip(table.joint.tolist(), *factors.values(), strict=True)
    clear = [coupling_is_clear(*row) for row in pairs]
    couplings = [
        value if one else float("nan") for value, one in zip(factors["coupling"], clear, strict=True)
    ]
    words = describe(factors | {"coupling": couplings})
    rows = []
    for i in table.order:
        one = ranked[i]
        rows.append({
            "source": one.candidate.name,
            "path": one.candidate.origin,
            "joint": float(table.joint[i]),
            "stderr_sketch": float(table.stderr_sketch[i]),
            "stderr_sampling": one.stderr_sampling,
            **{name: values[i] for name, values in factors.items()},
            "coupling_is_clear": clear[i],
            "words": words[i],
            "n_tokens": one.num_tokens,
            "shared_with_target": None if one.sample is None else target.share_in(one.sample),
        })
    return rows


def _noise(noise: Difference, ranking: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "best": ranking[0]["source"],
        "next": ranking[1]["source"],
        "difference": noise.difference,
        "stderr_sketch": noise.stderr_sketch,
        "stderr_sampling": noise.stderr_sampling,
        "within_noise": noise.within_noise,
    }


def _noise_lines(
    noise: Difference | None, ranking: list[dict[str, Any]], cfg: Config, target: Sample
) -> list[str]:
    if noise is None or not noise.within_noise:
        return []
    best, second = ranking[:2]
    tokens = min(target.num_tokens, best["n_tokens"], second["n_tokens"])
    settled = noise.to_settle(tokens, cfg.estimator.num_features)
    line = (
        f"within noise: {best['source']} leads {second['source']} by {noise.difference:.4f}, with a standard "
        f"error of {noise.stderr:.4f}"
    )
    if settled is None:
        return [f"{line}; take them as equally good"]
    wanted = []
    if settled[0] > tokens:
        wanted.append(f"about {settled[0]:,} tokens of each text in place of {tokens:,} (settings.tokens)")
    if settled[1] > cfg.estimator.num_features:
        wanted.append(f"{settled[1]:,} features (estimator.num_features)")
    return [f"{line}; if the lead is real, {' and '.join(wanted)} would settle it"]


def _save_signatures(store: Store, signatures: list[tuple[str, TaskSignature]]) -> None:
    folder = store.folder / "signatures"
    folder.mkdir()
    for stem, (_, signature) in zip(file_stems([name for name, _ in signatures]), signatures, strict=True):
        signature.save(folder / f"{stem}.safetensors")
