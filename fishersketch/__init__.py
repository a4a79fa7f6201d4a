"""Fisher alignment of output heads, inner layers and whole networks, exactly and by a one-pass sketch."""

from fishersketch.alignment import Alignment, align
from fishersketch.distributed import merge_ranks
from fishersketch.errors import FisherSketchError
from fishersketch.exact import exact_align
from fishersketch.gradient_kernels import gradient_kernels
from fishersketch.head import HeadTerms, head_terms, iter_head_terms, output_head
from fishersketch.independence import IndependenceTest, independence_test
from fishersketch.layers import layer_terms, linear_layers
from fishersketch.network_alignment import NetworkAlignment, network_alignment
from fishersketch.network_sketch import LayerShape, NetworkSketch, align_networks
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
    "IndependenceTest",
    "LayerShape",
    "NetworkAlignment",
    "NetworkSketch",
    "SketchSpec",
    "TargetAlignment",
    "TaskSignature",
    "align",
    "align_networks",
    "align_stream",
    "align_to",
    "exact_align",
    "gradient_kernels",
    "head_terms",
    "independence_test",
    "iter_head_terms",
    "layer_terms",
    "linear_layers",
    "merge_ranks",
    "network_alignment",
    "order_tasks",
    "output_head",
    "predicted_interference",
    "relabelled_joint",
    "stderr_sampling",
]
