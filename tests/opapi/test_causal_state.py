"""Causal convolutions of packed sequences whose last rows stay in a cache of states."""

from __future__ import annotations

import pytest
import torch

from tests.opapi.cases import FLOATS, NEAR, rand
from tests.opapi.client import AclError

BATCH, COLUMNS, TAPS, BLOCK = 4, 5, 3, 4


def convolved(
    x, weight, states, starts, computed, accepted=None, lines=None, blocks=None, padded=-1, residual=0, mode=0
):
    """From the page, sequence by sequence: what y and the states become, in fp64. `blocks`: first, last, initial."""
    y, after = x.double().clone() * 0, states.double().clone()
    kept = states.shape[1]
    for b in range(len(starts) - 1):
        rows = x[starts[b] : starts[b + 1]].double()
        count = len(rows)
        read = write = b if lines is None else lines[b]
        if blocks is not None:
            read, write = int(lines[b][blocks[2][b]]), int(lines[b][blocks[1][b]])
        if int(read) == padded:
            continue
        offset = accepted[b] - 1 if accepted is not None else kept - (TAPS - 1)
        before = states[int(read)].double()[: offset + TAPS - 1]
        if computed is not None and computed[b] == 0:
            offset, before = 0, torch.zeros(TAPS - 1, x.shape[1], dtype=torch.float64)
        padded_input = torch.cat([before, rows])
        tail = min(kept, len(padded_input))
        after[int(write)][kept - tail :] = padded_input[len(padded_input) - tail :]
        seen = padded_input[offset:]
        if blocks is not None:
            first, last = blocks[0][b], blocks[1][b]
            end = (count - (BLOCK - computed[b] % BLOCK)) % BLOCK
            full = count - BLOCK if end == 0 else count - end
            for chunk in range(last - first):
                row = full - (last - first - chunk - 1) * BLOCK
                after[int(lines[b][first + chunk])][kept - (TAPS - 1) :] = seen[row : row + TAPS - 1]
        out = torch.stack([(weight.double() * seen[i : i + TAPS]).sum(0) for i in range(count)])
        if mode == 1:
            out[: min(max(TAPS - 1 - computed[b], 0), count)] = 0
        y[starts[b] : starts[b + 1]] = out + rows if residual else out
    return y, after


def call(npu, x, weight, states, inplace=False, **given):
    """Of both functions: y and the states."""
    op = "aclnnInplaceFusedCausalConv1d" if inplace else "aclnnFusedCausalConv1d"
    values = {p.name: None if "*" in p.type else 0 for p in npu.signatures[op]}
    values |= {"x": x, "weight": weight, "convStates": states.clone(), "padSlotId": -1, "blockSize": 128} | given
    if not inplace:
        values["y"] = torch.full_like(x, 77)
    results = npu.call(op, **values)
    return results["x" if inplace else "y"], results["convStates"]


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_whole_sequences(npu, dtype, inplace, mode):
    starts, lines, computed = [0, 5, 8, 9, 13], [0, 3, 1, 5], [0, 1, 7, 0]
    x, weight, states = (
        rand(13, COLUMNS, dtype=dtype),
        rand(TAPS, COLUMNS, dtype=dtype),
        rand(8, 2, COLUMNS, dtype=dtype),
    )
    y, after = convolved(x, weight, states, starts, computed, lines=lines, residual=1, mode=mode)
    got = call(
        npu,
        x,
        weight,
        states,
        inplace,
        queryStartLoc=ints(starts),
        cacheIndices=ints(lines),
        numComputedTokens=ints(computed),
        residualConnection=1,
        convMode=mode,
    )
    torch.testing.assert_close(got[0], y.to(dtype), **NEAR[dtype])
    torch.testing.assert_close(got[1], after.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_guesses_and_a_sequence_that_is_left_out(npu, dtype):
    """Two guesses a sequence: states keep four rows, and begin with the accepted ones. Line 6 stands for none."""
    lines, accepted = [2, 6, 1, 0], [1, 2, 3, 2]
    x, weight = rand(BATCH, 3, COLUMNS, dtype=dtype), rand(TAPS, COLUMNS, dtype=dtype)
    states = rand(7, 4, COLUMNS, dtype=dtype)
    flat = x.flatten(0, 1)
    y, after = convolved(flat, weight, states, [0, 3, 6, 9, 12], None, accepted, lines, padded=6)
    got = call(npu, x, weight, states, cacheIndices=ints(lines), numAcceptedTokens=ints(accepted), padSlotId=6)
    torch.testing.assert_close(got[0], y.to(dtype).view_as(x), **NEAR[dtype])
    torch.testing.assert_close(got[1], after.to(dtype))
    y, after = convolved(flat, weight, states, [0, 3, 6, 9, 12], None)
    got = call(npu, flat, weight, states, queryStartLoc=ints([0, 3, 6, 9, 12]))
    torch.testing.assert_close(got[0], y.to(dtype), **NEAR[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_states_at_the_ends_of_blocks(npu, dtype):
    """Sequences of 10, 3 and 9 rows after 0, 5 and 8: the blocks of four that they fill get their states."""
    starts, computed = [0, 10, 13, 22], [0, 5, 8]
    blocks = [[0, 1, 2], [2, 1, 4], [0, 1, 1]]
    lines = torch.arange(15, dtype=torch.int32).reshape(3, 5)
    x, weight, states = (
        rand(22, COLUMNS, dtype=dtype),
        rand(TAPS, COLUMNS, dtype=dtype),
        rand(15, 2, COLUMNS, dtype=dtype),
    )
    y, after = convolved(x, weight, states, starts, computed, lines=lines, blocks=blocks)
    got = call(
        npu,
        x,
        weight,
        states,
        queryStartLoc=ints(starts),
        cacheIndices=lines,
        numComputedTokens=ints(computed),
        blockIdxFirstScheduledToken=ints(blocks[0]),
        blockIdxLastScheduledToken=ints(blocks[1]),
        initialStateIdx=ints(blocks[2]),
        blockSize=BLOCK,
    )
    torch.testing.assert_close(got[0], y.to(dtype), **NEAR[dtype])
    torch.testing.assert_close(got[1], after.to(dtype))


def test_what_does_not_fit_is_refused(npu):
    x, weight, states = rand(6, COLUMNS), rand(TAPS, COLUMNS), rand(3, 2, COLUMNS)
    starts = ints([0, 2, 6])
    for changed, words in (
        ({"queryStartLoc": None}, "queryStartLoc is needed"),
        ({"cacheIndices": ints([0, 1, 2])}, r"cacheIndices must have sizes \[2\], got \[3\]"),
        ({"convMode": 1}, "convMode 1 needs numComputedTokens"),
        ({"convMode": 2}, "convMode 2 is not implemented"),
        ({"initialStateIdx": ints([0, 0])}, "go together"),
        ({"residualConnection": 2}, "residualConnection 2 is not implemented"),
    ):
        with pytest.raises(AclError, match=words) as error:
            call(npu, x, weight, states, **{"queryStartLoc": starts} | changed)
        assert error.value.status == 161002
    with pytest.raises(AclError, match="convStates keeps 1 rows, 2 are needed before 3 taps"):
        call(npu, x, weight, states[:, :1], queryStartLoc=starts)
