"""Features in few bits: what decoding returns."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fishersketch.quantize import DTYPES, decode, encode, stored_shape

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
LEVELS = {"int8": 127, "int4": 7}


def stored_and_decoded(vector, dtype):
    codes, factor = encode(vector, dtype)
    kind, length = stored_shape(dtype, len(vector))
    assert codes.dtype == kind and codes.shape == (length,)
    return decode(codes, factor, dtype, len(vector))


@every_dtype
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_vector_comes_back_near_itself(dtype, data):
    size = data.draw(st.integers(1, 33))
    numbers = st.floats(-1.0, 1.0, allow_subnormal=False) | st.sampled_from([0.0, 1.0, -1.0, 1e-30])
    scale = data.draw(st.sampled_from([1e-300, 1e-160, 1e-40, 1e-8, 1.0, 1e12, 1e45, 1e150]))
    vector = (
        torch.tensor(data.draw(st.lists(numbers, min_size=size, max_size=size)), dtype=torch.float64) * scale
    )
    decoded = stored_and_decoded(vector, dtype)
    assert decoded.shape == vector.shape and torch.isfinite(decoded).all()
    largest = float(vector.abs().max())
    if largest == 0.0:
        assert torch.equal(decoded, vector)
    elif dtype == "float32":
        assert ((decoded - vector).abs() <= 2.0**-24 * vector.abs() + 1e-38 * largest).all()
    else:
        # The step of the largest entry would give half a step; no step that is chosen may do worse overall.
        half_step = largest / LEVELS[dtype] / 2
        unit, back = vector / largest, decoded / largest
        assert float(unit @ back) == pytest.approx(float(unit @ unit), rel=1e-9)
        cosine = float(unit @ back) / float(unit.norm() * back.norm())
        assert (
            cosine >= math.sqrt(max(0.0, 1 - size * (half_step / largest) ** 2 / float(unit @ unit))) - 1e-9
        )
        assert torch.equal(stored_and_decoded(-vector, dtype), -decoded)


@pytest.mark.parametrize("size", [1, 2, 5, 4095, 4096])
def test_int4_packs_two_codes_a_byte(size):
    codes = torch.randint(-7, 8, (size,), generator=torch.Generator().manual_seed(size)).double()
    codes[0] = 7.0
    stored, _ = encode(codes, "int4")
    assert stored.numel() == -(-size // 2)
    assert torch.equal(stored_and_decoded(codes, "int4").round(), codes)
    if size > 1:
        assert int(stored[0] & 15) - 8 == 7 and int(stored[0] >> 4) - 8 == int(codes[1])


@pytest.mark.parametrize(("dtype", "most"), [("int8", 0.001), ("int4", 0.01)])
def test_products_with_another_vector_are_unbiased(dtype, most):
    generator = torch.Generator().manual_seed(0)
    errors = []
    for _ in range(200):
        v = torch.randn(512, generator=generator, dtype=torch.float64) ** 3  # heavy tails, as features have
        other = v + 2 * torch.randn(512, generator=generator, dtype=torch.float64)
        scale = float(v.norm() * other.norm())
        errors.append(float((stored_and_decoded(v, dtype) - v) @ other) / scale)
    errors = torch.tensor(errors, dtype=torch.float64)
    assert errors.mean().abs() < 4 * errors.std() / 200**0.5
    assert errors.std() < most
