"""Cross-domain: alignment against perplexity reduction, over all pairs of corpora and over fewer of them."""

import pandas as pd

from analysis.caption import caption
from analysis.claims import read_paper
from analysis.figures import heatmap, reduction_scatter, subset_strip, top1_bars
from analysis.load import RunFolder
from analysis.pairs import Pairs, matrix, ranking, read_pairs
from analysis.presentation import Figure, Presentation, Table
from analysis.scores import UNITS, estimators, scores, sketch_against_exact
from analysis.tables import markdown

METRICS = (
    "correlation.all.absolute.spearman.joint",
    "correlation.all.absolute.p_mantel.joint",
    "correlation.all.absolute.spearman.activation",
    "correlation.all.absolute.p_mantel.activation",
    "correlation.all.relative.spearman.joint",
    "mean_spearman.joint",
    "mean_spearman.activation",
    "top1.joint",
    "random_top1",
)
READINGS = {
    "all": "all corpora",
    "subset": "the named corpora",
    "all_with_diagonal": "all corpora, diagonal too",
    "subset_with_diagonal": "the named corpora, diagonal too",
}
# The paper's number stands beside its own kind of corpora only.
PAPER = {"smiles7": "smiles_spearman"}


def present(run: RunFolder) -> Presentation:
    """Tables, figures and a summary of the correlations.

    Args:
        run: a finished run.

    Returns:
        What to show.
    """
    pairs = read_pairs(run)
    line = caption(run)
    number = PAPER.get(str(run.metric("data")))
    paper = float(read_paper()[number].value) if number else None
    correlations = _correlations(run)
    tables = [
        Table(
            "correlation",
            "Spearman of alignment with perplexity reduction over pairs; intervals over held-out windows",
            correlations,
        ),
        Table(
            "per_target", "Spearman of each target's scores with its gains, itself left out", _targets(run)
        ),
        Table("scores", f"How well each estimator picks sources; {UNITS}", scores(run)),
        Table("corpora", "The corpora; perplexity of the base model on held-out text", _corpora(run)),
        Table(
            "perplexity_reduction",
            "Reduction of the target's perplexity, source to target",
            matrix(run.arrays("perplexity")["absolute"], pairs),
        ),
        Table(
            "relative_reduction",
            "Reduction of the target's perplexity as a share, source to target",
            matrix(run.arrays("perplexity")["relative"], pairs),
        ),
        Table("ranking", "Ranked sources of every target; gain in nats per token", ranking(pairs)),
    ]
    broken = run.metric("broken_windows")
    if broken:
        tables.append(
            Table(
                "broken_windows",
                "Held-out windows that tuning made worse by over 1 nat/token; they stay in every mean",
                pd.DataFrame(broken),
            )
        )
    comparison = sketch_against_exact(run)
    if len(comparison):
        tables.append(
            Table("sketch_vs_exact", "The sketch against the exact alignment, same tokens", comparison)
        )
    figures = [_scatter(run, pairs, truth, line) for truth in ("absolute", "relative")]
    figures.append(
        Figure(
            "alignment_heatmap",
            "Joint alignment of every pair, clustered by group",
            f"Heatmap of the joint alignment of {len(pairs.names)} corpora.",
            lambda: heatmap.draw(pairs, line),
        )
    )
    figures.append(
        Figure(
            "top1",
            "Top-1 of every estimator with its interval, and chance",
            f"Bars of Top-1 over {len(pairs.names)} targets.",
            lambda: top1_bars.draw(run, line),
        )
    )
    if run.has_arrays("subsets"):
        tables.append(Table("subsets", "Every choice of as many corpora as are named", _subsets(run)))
        figures.append(
            Figure(
                "subsets",
                "The correlation over every choice of as many corpora as are named",
                _choices(run),
                lambda: subset_strip.draw(run, estimators(run), paper, line),
            )
        )
    main = correlations[correlations["reduction"] == "absolute"]
    first = main[main["estimator"].isin(["joint", "activation", "error", "coupling"])]
    columns = [
        "pairs",
        "n_pairs",
        "estimator",
        "spearman",
        "low",
        "high",
        "p_spearman",
        "p_mantel",
        "p_floor",
    ]
    said = _choices(run) if run.has_arrays("subsets") else ""
    text = f"{run.job}: {line}\n\n{markdown(first[columns])}\n{said}"
    if broken:
        text += (
            f"\n\nTuning broke {len(broken)} held-out windows (kept in every mean): tables/broken_windows.md."
        )
    return Presentation(text.rstrip(), tables, figures)


def _correlations(run: RunFolder) -> pd.DataFrame:
    rows = []
    held = run.metric("correlation")
    for key, title in READINGS.items():
        for truth in ("absolute", "relative") if key in held else ():
            found = held[key][truth]
            for name in estimators(run):
                low, high = found["spearman_interval"][name]
                rows.append({
                    "pairs": title,
                    "n_pairs": held[key]["pairs"],
                    "reduction": truth,
                    "estimator": name,
                    "spearman": found["spearman"][name],
                    "low": low,
                    "high": high,
                    "p_spearman": found["p_spearman"][name],
                    "p_mantel": found["p_mantel"][name],
                    "p_floor": held[key]["p_floor"],
                })
    return pd.DataFrame(rows)


def _targets(run: RunFolder) -> pd.DataFrame:
    held = run.metric("spearman_per_target")
    frame = pd.DataFrame({"target": run.metric("domains")})
    for name in estimators(run):
        frame[name] = [held[name][target] for target in frame["target"]]
    frame.loc[len(frame)] = ["mean", *(run.metric("mean_spearman")[name] for name in estimators(run))]
    return frame


def _corpora(run: RunFolder) -> pd.DataFrame:
    return pd.DataFrame([
        {
            "corpus": name,
            "group": run.metric("groups")[name],
            "base_perplexity": run.metric("base_perplexity")[name],
            "n_tokens": run.metric("n_tokens_per_domain")[name],
            "left_out_documents": run.metric("left_out_documents")[name],
            "source": run.metric("sources")[name],
            "licence": run.metric("licences")[name],
        }
        for name in run.metric("domains")
    ])


def _subsets(run: RunFolder) -> pd.DataFrame:
    rows = []
    for ending in ("", "_with_diagonal"):
        for name in estimators(run):
            found = run.metric(f"subsets{ending}")[name]
            rows.append({"pairs": "diagonal too" if ending else "two different", "estimator": name, **found})
    return pd.DataFrame(rows)


def _choices(run: RunFolder) -> str:
    said = []
    for name in ("joint", "activation"):
        found = run.metric("subsets")[name]
        least, median, most = (found[f"spearman_{key}"] for key in ("least", "median", "most"))
        said.append(f"{name} {least:.2f} to {most:.2f} (median {median:.2f})")
    count, size = found["choices"], len(run.metric("subset"))
    return f"Over {count} choices of {size} corpora: {', '.join(said)}."


def _scatter(run: RunFolder, pairs: Pairs, truth: str, line: str) -> Figure:
    found = run.metric(f"correlation.all.{truth}.spearman")
    said = ", ".join(f"{name} {found[name]:.2f}" for name in ("joint", "activation", "error", "coupling"))
    return Figure(
        f"reduction_{truth}",
        f"Alignment against the {truth} perplexity reduction, all pairs of different corpora",
        f"Four scatter plots; Spearman correlations: {said}.",
        lambda: reduction_scatter.draw(run, pairs, truth, line),
    )
