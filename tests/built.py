"""Models and domains that are there already, in the place of configs that would build them."""

import numpy as np

from experiments.domains.base import Domain, DomainSet


class Built:
    """Builds what it was given."""

    def __init__(self, name, value):
        self.name, self.value = name, value

    def build(self, _):
        return self.value


def domain_set(domains: list[Domain]) -> DomainSet:
    names = [domain.name for domain in domains]
    nothing = dict.fromkeys(names, 0)
    return DomainSet("chains", domains, np.zeros((len(names),) * 2), nothing, {}, nothing)
