"""The settings of network_fisher; apart from the job, since they are read before any run."""

from dataclasses import dataclass

from experiments.errors import UserError
from experiments.options import option, register


@register("settings", "network_fisher")
@dataclass
class NetworkFisherConfig:
    """Which layers, how many samples, and whether the whole network is taken exactly."""

    samples: int = option(8, "Windows, or images, of each task; each gives one gradient.", min=4)
    layers: list[str] = option(["*"], "Linear layers that are sketched, as shell patterns of their names.")
    exact: bool = option(
        True,
        "Also the exact alignment over all parameters, by autograd: for models of some 100 M parameters.",
    )
    chunk_megabytes: int = option(4096, "Memory for gradients; less of it means more passes.", min=1)
    permutations: int = option(99, "Permutations of the errors in the test of independence.", min=19)

    def check(self, key: str) -> None:
        """Checks that there are layers and that both halves hold samples.

        Raises:
            UserError: There are none, or their number is odd.
        """
        if not self.layers:
            raise UserError(f"{key}.layers=[]: must be one pattern or more")
        if self.samples % 2:
            raise UserError(f"{key}.samples={self.samples}: must be even, as halves are compared")
