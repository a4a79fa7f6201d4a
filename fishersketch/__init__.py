"""Fisher alignment of output heads, exactly and by a one-pass sketch."""

from fishersketch.alignment import Alignment, align
from fishersketch.distributed import merge_ranks
from fishersketch.errors import FisherSketchError
from fishersketch.exact import exact_align
from fishersketch.head import HeadTerms, head_terms, iter_head_terms, output_head
from fishersketch.ordering import order_tasks, predicted_interference
from fishersketch.ranking import TargetAlignment, align_to
from fishersketch.relabelled import relabelled_joint
from fishersketch.sampling import stderr_sampling
from fishersketch.signature import TaskSignature
from fishersketch.sketch import FisherSketch
from fishersketch.spec import SketchSpec
from fishersketch.stream_alignment import align_stream

__all__ = [
    "Alignment",
    "FisherSketch",
    "FisherSketchError",
    "HeadTerms",
    "SketchSpec",
    "TargetAlignment",
    "TaskSignature",
    "align",
    "align_stream",
    "align_to",
    "exact_align",
    "head_terms",
    "iter_head_terms",
    "merge_ranks",
    "order_tasks",
    "output_head",
    "predicted_interference",
    "relabelled_joint",
    "stderr_sampling",
]
