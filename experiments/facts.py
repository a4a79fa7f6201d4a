"""What a run on domains was made from: the part of its metrics that every such job writes."""

from typing import Any

from experiments.config import Config
from experiments.domains.base import DomainSet
from fishersketch import Alignment


def run_facts(cfg: Config, data: DomainSet, table: Alignment) -> dict[str, Any]:
    """Returns model, domains with their sources and licences, seed and self terms, for ``metrics.json``."""
    return {
        "model": cfg.model.name,
        "data": data.name,
        "domains": [domain.name for domain in data.domains],
        "groups": {domain.name: domain.group for domain in data.domains},
        "sources": {domain.name: domain.source for domain in data.domains},
        "licences": {domain.name: domain.licence for domain in data.domains},
        "dropped_spans": data.dropped,
        "not_finite": data.not_finite,
        "seed": cfg.seed,
        "self_terms": table.self_terms,
    }
