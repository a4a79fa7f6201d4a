"""The settings of the validation; apart from the job, since they are read before any run."""

from dataclasses import dataclass

from experiments.errors import UserError
from experiments.options import option, register

BITS = {"float32": 32, "int8": 8, "int4": 4}  # of one stored feature


@register("settings", "estimator_validation")
@dataclass
class EstimatorValidationConfig:
    """Which sketches are compared, and how often the speed is measured."""

    features: list[int] = option([256, 1024, 4096, 16384], "Numbers of random features, m.", min=1)
    samples: list[int] = option([125, 500, 2000], "Images a task, n; the last is the full one.", min=4)
    projection_seeds: int = option(5, "Projections drawn, from the run's seed on.", min=1)
    payload_bytes: int = option(16384, "Bytes of the joint payload of the signatures beside.", min=16)
    repeats: int = option(3, "Rounds of the speed measurement.", min=1)
    speed_tasks: int = option(12, "Tasks, the first ones, of the speed measurement.", min=2)
    resamples: int = option(200, "Resamples of the tasks for the intervals.", min=1)
    route_tasks: int = option(3, "Tasks on which the two exact routes are compared.", min=2)
    route_samples: int = option(250, "Images of each of these tasks.", min=4)
    relabelled_samples: int = option(500, "Images a task of the copies with another class order.", min=4)
    transfer_images: int = option(0, "Images a source is fine-tuned on for the gains; 0: no gains.", min=0)
    transfer_seen: int = option(250, "Images of a target that LogME and LEEP see.", min=4)
    learning_rate: float = option(5e-4, "Learning rate of fine-tuning.", min=0)

    def check(self, key: str) -> None:
        """Checks that sizes rise.

        Raises:
            UserError: They do not.
        """
        for name in ("features", "samples"):
            values = list(getattr(self, name))
            if not values or sorted(set(values)) != values:
                raise UserError(f"{key}.{name}={values}: must be one or more rising numbers")

    def payload_features(self, dtype: str) -> int:
        """Returns how many features of a dtype the payload holds."""
        return self.payload_bytes * 8 // BITS[dtype]
