"""Matrix products that do not depend on the number of threads."""

import os


def ask_for_same_sums() -> None:
    """Has MKL add in one order however many threads share a product.

    By default MKL may cut the sum of one product between threads, on some processors and for some shapes, and
    floating-point sums depend on where they are cut. Its strict mode of conditional reproducibility does not,
    at a cost that we could not measure. MKL reads the variable at its first product, so this has to come
    before. Nothing happens where ``MKL_CBWR`` is set; a torch without MKL does not read it.

    Source: Intel oneMKL developer guide, "Obtaining numerically reproducible results".
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
