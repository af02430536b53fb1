"""The sampling settings mean what they mean in llama.cpp, whose own samplers are the reference.

The reference runs penalties, top-k, top-p, min-p and temperature on a token array, as a program that
links llama.cpp does. A token whose weight lies so near a threshold that float32 and float64 may
disagree about it says nothing: such rows are left out, and few may be.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import llama_cpp
import numpy as np
import pytest
from scipy.stats import chisquare

from app.engine.sampling import Logits, Sampler, draw_index
from app.engine.settings import Sampling
from app.errors import SpecchatError, UsageError
from proposers.base import Distribution
from tests.enumeration import outcomes

OFF = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
PENALTIES = replace(OFF, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.7, penalty_window=20)

CASES = {
    "nothing": OFF,
    "temperature": replace(OFF, temperature=0.6),
    "top-k": replace(OFF, top_k=7),
    "top-k of 1": replace(OFF, top_k=1),
    "top-k above the vocabulary": replace(OFF, top_k=10**6),
    "top-p": replace(OFF, top_p=0.9),
    "min-p": replace(OFF, min_p=0.03),
    "top-p, min-p": replace(OFF, top_p=0.97, min_p=0.02),
    "repeat": replace(OFF, repeat_penalty=1.5),
    "repeat below 1": replace(OFF, repeat_penalty=0.8, penalty_window=5),
    "frequency": replace(OFF, frequency_penalty=0.9),
    "presence": replace(OFF, presence_penalty=-1.2, penalty_window=1),
    "penalties": PENALTIES,
    "no window": replace(PENALTIES, penalty_window=0),
    "default": Sampling(),
    "all": replace(PENALTIES, temperature=0.7, top_k=8, top_p=0.9, min_p=0.04),
    "all but top-k": replace(PENALTIES, temperature=0.7, top_p=0.9, min_p=0.04),
}


def native_logits(
    row: Logits, settings: Sampling, preceding: Sequence[int], *, whole: bool = True
) -> dict[int, float]:
    """The logits of the tokens that llama.cpp keeps; without `whole` its chain ends after top-k."""
    size = len(row)
    penalties = settings.repeat_penalty, settings.frequency_penalty, settings.presence_penalty
    parts = [
        llama_cpp.llama_sampler_init_penalties(size, settings.penalty_window, *penalties),
        llama_cpp.llama_sampler_init_top_k(settings.top_k),
    ]
    if whole:
        parts += [
            llama_cpp.llama_sampler_init_top_p(settings.top_p, 1),
            llama_cpp.llama_sampler_init_min_p(settings.min_p, 1),
            llama_cpp.llama_sampler_init_temp(settings.temperature),
        ]
    entries = [llama_cpp.llama_token_data(token, logit, 0.0) for token, logit in enumerate(row.tolist())]
    array = (llama_cpp.llama_token_data * size)(*entries)
    candidates = llama_cpp.llama_token_data_array(array, size, -1, False)
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for part in parts:
        llama_cpp.llama_sampler_chain_add(chain, part)
    for token in preceding:
        llama_cpp.llama_sampler_accept(chain, token)
    llama_cpp.llama_sampler_apply(chain, candidates)
    kept = [candidates.data[index] for index in range(candidates.size)]
    llama_cpp.llama_sampler_free(chain)
    return {entry.id: entry.logit for entry in kept if entry.logit > -np.inf}


def softmax(logits: dict[int, float]) -> dict[int, float]:
    values = np.array(list(logits.values()))
    weights = np.exp(values - values.max())
    return dict(zip(logits, (weights / weights.sum()).tolist(), strict=True))


def near_a_threshold(row: Logits, settings: Sampling, preceding: Sequence[int]) -> bool:
    """True where rounding decides whether a token is kept by top-k, top-p or min-p."""
    penalised = softmax(native_logits(row, replace(settings, top_k=0), preceding, whole=False))
    values = np.array(sorted(penalised.values(), reverse=True))
    if 0 < settings.top_k < len(values):
        if values[settings.top_k - 1] - values[settings.top_k] < 1e-6 * values[settings.top_k - 1]:
            return True
        values = values[: settings.top_k] / values[: settings.top_k].sum()
    by_nucleus = settings.top_p < 1.0 and np.abs(values.cumsum() - settings.top_p).min() < 3e-6
    relative = values / values[0]
    by_floor = settings.min_p > 0.0 and np.abs(relative / settings.min_p - 1.0).min() < 1e-5
    return bool(by_nucleus or by_floor)


def as_mapping(distribution: Distribution) -> dict[int, float]:
    tokens = distribution.tokens.tolist()
    assert len(set(tokens)) == len(tokens), "a token is there twice"
    probabilities = distribution.probabilities.tolist()
    assert sum(probabilities) == pytest.approx(1.0, abs=1e-12)
    return {token: p for token, p in zip(tokens, probabilities, strict=True) if p > 0.0}


def agrees(distribution: Distribution, row: Logits, settings: Sampling, preceding: Sequence[int]) -> bool:
    """Whether the row could be compared; fails where ours and llama.cpp's differ."""
    if near_a_threshold(row, settings, preceding):
        return False
    reference = softmax(native_logits(row, settings, preceding))
    assert as_mapping(distribution) == pytest.approx(reference, abs=1e-5)
    return True


def random_logits(shape: tuple[int, ...], rng: np.random.Generator) -> Logits:
    return (rng.standard_normal(shape) * rng.uniform(1.0, 4.0)).astype(np.float32)


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
def test_single_rows_match_llama_cpp(settings: Sampling) -> None:
    """Else a setting means something else here than in every other program on llama.cpp."""
    rng = np.random.default_rng(1)
    compared = 0
    for size in [40] * 10 + [300] * 10 + [6000] * 3:
        row = random_logits((size,), rng)
        history = rng.integers(0, 12, int(rng.integers(0, 50))).tolist()
        (distribution,) = Sampler(settings).distributions(row[None], history, ())
        compared += agrees(distribution, row, settings, history)
    assert compared >= 20


def test_rows_of_a_draft_match_llama_cpp_with_random_settings() -> None:
    """Else p at a drafted position is not the p that plain decoding would have there."""
    rng = np.random.default_rng(2)
    compared = total = 0
    for _ in range(40):
        settings = Sampling(
            temperature=float(rng.uniform(0.4, 2.0)),
            top_k=int(rng.choice([0, 1, 5, 40])),
            top_p=float(rng.choice([0.3, 0.8, 0.95, 1.0])),
            min_p=float(rng.choice([0.0, 0.02, 0.2])),
            repeat_penalty=float(rng.choice([0.9, 1.0, 1.4])),
            frequency_penalty=float(rng.choice([-0.3, 0.0, 0.6])),
            presence_penalty=float(rng.choice([-0.3, 0.0, 0.6])),
            penalty_window=int(rng.choice([0, 1, 3, 16, 64])),
        )
        drafted = rng.integers(0, 10, int(rng.integers(0, 6))).tolist()
        history = rng.integers(0, 10, int(rng.integers(0, 40))).tolist()
        rows = random_logits((len(drafted) + 1, 200), rng)
        for index, distribution in enumerate(Sampler(settings).distributions(rows, history, drafted)):
            compared += agrees(distribution, rows[index], settings, history + drafted[:index])
            total += 1
    assert compared >= 0.9 * total > 90


@pytest.mark.parametrize("top_p", [0.5, 0.95, 0.999])
def test_a_flat_nucleus_is_found_whole(top_p: float) -> None:
    """Else top-p without top-k cuts a hot distribution at the first few hundred candidates."""
    row = (np.random.default_rng(3).standard_normal(20_000) * 0.1).astype(np.float32)
    (distribution,) = Sampler(replace(OFF, top_p=top_p)).distributions(row[None], (), ())
    assert len(distribution.tokens) > 5000
    assert agrees(distribution, row, replace(OFF, top_p=top_p), ())


@pytest.mark.parametrize("top_k", [0, 5])
def test_tokens_that_the_model_rules_out_stay_out(top_k: int) -> None:
    """Else a token with a logit of minus infinity can be drawn, or makes the figures NaN."""
    row = np.full(2000, -np.inf, np.float32)
    row[[3, 1500, 1999]] = [1.0, 2.0, 0.5]
    for settings in (OFF, replace(OFF, top_p=0.999), replace(OFF, min_p=0.1), replace(PENALTIES, top_k=0)):
        sampler = Sampler(replace(settings, top_k=top_k))
        (distribution,) = sampler.distributions(row[None], [3, 4, 1500], ())
        assert as_mapping(distribution).keys() == {3, 1500, 1999}


GREEDY = {"greedy": replace(OFF, temperature=0.0), "greedy, penalties": replace(PENALTIES, temperature=0.0)}
# The last entries lie after the whole blocks in which a long row is searched.
DAMAGE: dict[str, Callable[[Logits], None]] = {
    "NaN": lambda row: row.fill(np.nan),
    "one NaN": lambda row: row.__setitem__(17, np.nan),
    "one NaN at the end": lambda row: row.__setitem__(-1, np.nan),
    "infinity": lambda row: row.fill(np.inf),
    "two of infinity": lambda row: row.__setitem__([3, -1], np.inf),
    "infinity and NaN": lambda row: row.__setitem__([3, -1], [np.inf, np.nan]),
    "nothing possible": lambda row: row.fill(-np.inf),
}


def every_way(settings: Sampling, rows: Logits) -> Iterator[Callable[[], object]]:
    """Each way through the sampler that these settings take."""
    sampler = Sampler(settings)
    drafted = list(range(len(rows) - 1))
    yield lambda: sampler.distributions(rows, [3, 5], drafted)
    if sampler.greedy:
        yield lambda: [sampler.choose(row, [3, 5], drafted[:index]) for index, row in enumerate(rows)]


@pytest.mark.parametrize("size", [60, 20_011])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", [*CASES, *GREEDY])
def test_rows_that_say_nothing_are_told(name: str, damage: str, size: int) -> None:
    """Else a damaged model ends in an IndexError, or says tokens that nobody computed."""
    for number, bad in ((1, 0), (3, 1)):
        # Equal logits, so that other rows have more candidates than they need.
        rows = np.random.default_rng(1).integers(0, 9, (number, size)).astype(np.float32)
        DAMAGE[damage](rows[bad])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for way in every_way((CASES | GREEDY)[name], rows):
                with pytest.raises(SpecchatError, match=r"NaN or infinity.*download it again"):
                    way()


@pytest.mark.parametrize("size", [60, 20_011])
@pytest.mark.parametrize("name", [*CASES, *GREEDY])
def test_a_token_of_infinite_logit_is_certain(name: str, size: int) -> None:
    """Else a row that says clearly what comes next is taken for damage, or makes the figures NaN."""
    settings = (CASES | GREEDY)[name]
    sampler = Sampler(settings)
    for place in (0, 5, size - 1):
        rows = np.random.default_rng(1).integers(0, 9, (2, size)).astype(np.float32)
        rows[0, place] = np.inf
        rows[1, 9] = -np.inf
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            certain, usual = sampler.distributions(rows, [3, 5], [4])
            assert sampler.choose(rows[0], [3, 5], []) == place or not sampler.greedy
        assert as_mapping(certain) == {place: 1.0}
        assert 9 not in as_mapping(usual) and sum(as_mapping(usual).values()) == pytest.approx(1)
        assert sampler.draw(certain, np.random.default_rng(0)) == place


def counts_seen(distribution: Distribution, size: int) -> list[int]:
    """How often each token was counted: equal logits less count × 1 give p ∝ exp(-count)."""
    by_token = as_mapping(distribution)
    logs = np.log([by_token[token] for token in range(size)])
    counts: list[int] = np.rint(logs.max() - logs).astype(int).tolist()
    assert logs.max() - logs == pytest.approx(counts, abs=1e-5)
    return counts


@pytest.mark.parametrize("window", [1, 2, 4, 7, 100])
def test_penalties_count_the_history_and_the_draft_before_a_row(window: int) -> None:
    """Else a drafted token is penalised not at all, a row early, or the last token twice."""
    size = 8  # token 7 never occurs
    history, drafted = [1, 2, 2, 5], [5, 0, 2, 2]
    sampler = Sampler(replace(OFF, frequency_penalty=1.0, penalty_window=window))
    rows = np.zeros((len(drafted) + 1, size), np.float32)
    for index, distribution in enumerate(sampler.distributions(rows, history, drafted)):
        seen = (history + drafted[:index])[-window:]
        assert counts_seen(distribution, size) == [seen.count(token) for token in range(size)]
    # The proposer's view: one row after history + drafted.
    (last,) = sampler.distributions(rows[:1], history, drafted)
    seen = (history + drafted)[-window:]
    assert counts_seen(last, size) == [seen.count(token) for token in range(size)]


def test_a_rejected_draft_leaves_no_trace() -> None:
    """Else a guess that was thrown away still penalises tokens, or changes what the seed gives.

    A row is the same to the bit whether it comes alone, with a draft, or after a rejected one.
    """
    rng = np.random.default_rng(5)
    rows = random_logits((5, 900), rng)
    untouched = rows.copy()
    history, drafted = [4, 5, 6, 4], [4, 5, 5, 9]
    for settings in CASES.values():
        sampler = Sampler(settings)
        sampler.choose(rows[0], history, drafted)
        for index, in_draft in enumerate(sampler.distributions(rows, history, drafted)):
            one = rows[index : index + 1], history, drafted[:index]
            for (alone,) in (sampler.distributions(*one), Sampler(settings).distributions(*one)):
                assert np.array_equal(alone.tokens, in_draft.tokens)
                assert np.array_equal(alone.probabilities, in_draft.probabilities)
    assert np.array_equal(rows, untouched)
    assert (history, drafted) == ([4, 5, 6, 4], [4, 5, 5, 9])


@pytest.mark.parametrize("settings", [OFF, PENALTIES, Sampling()], ids=["bare", "penalties", "default"])
def test_temperature_0_is_the_argmax_after_penalties(settings: Sampling) -> None:
    """Else greedy replies differ from llama.cpp's, or ignore the penalties."""
    settings = replace(settings, temperature=0.0)
    sampler = Sampler(settings)
    assert sampler.greedy
    rng = np.random.default_rng(6)
    differs = 0
    for _ in range(40):
        drafted, history = rng.integers(0, 30, 3).tolist(), rng.integers(0, 30, 30).tolist()
        rows = random_logits((4, 40), rng)
        for index, distribution in enumerate(sampler.distributions(rows, history, drafted)):
            before = drafted[:index]
            (expected,) = native_logits(rows[index], settings, history + before)
            assert as_mapping(distribution) == {expected: 1.0}
            assert sampler.choose(rows[index], history, before) == expected
            differs += expected != int(rows[index].argmax())
    assert (differs > 10) is settings.penalised
    assert sampler.choose(np.array([0, 2, 1, 2], np.float32), (), ()) == 1


LIMITS = {
    "temperature": (0, 100),
    "top_k": (0, 2**31),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0.01, 100),
    "frequency_penalty": (-100, 100),
    "presence_penalty": (-100, 100),
    "penalty_window": (0, 2**31),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_value_out_of_range_is_refused_by_name(name: str) -> None:
    """Else top-p 2 or a NaN gives garbage or a traceback in place of a sentence that says which."""
    low, high = LIMITS[name]
    sentence = rf"^{name.replace('_', '-')} is \S+: give a number from \S+ to \S+\.$"
    for value in (float("nan"), float("inf"), float("-inf"), low - 1, low - 1e-3, high + 1, high * 1.01):
        with pytest.raises(UsageError, match=sentence):
            Sampling(**{name: value})  # type: ignore[arg-type]
    for value in (low, high):
        sampler = Sampler(Sampling(**{name: value}))  # type: ignore[arg-type]
        (distribution,) = sampler.distributions(np.array([[1, 3, 2]], np.float32), [0, 2], [2])
        assert as_mapping(distribution)


WEIGHTS = np.array([0.0, 0.3, 0.0, 0.05, 0.25, 1e-7, 0.4, 0.0])


def test_every_draw_has_exactly_its_probability() -> None:
    """Else some tokens come more often than the settings say, or ones that were cut come at all.

    The branches cover all of [0, 1), so no uniform, 0 included, leads off the support.
    """
    tokens = np.arange(100, 108)
    sampler = Sampler(OFF)
    for seed in range(20):
        kept = np.random.default_rng(seed).random(8) < (seed + 1) / 20
        weights = WEIGHTS * kept + 0.01 * (tokens == 100 + seed % 8)
        distribution = Distribution(tokens, weights / weights.sum())
        drawn: dict[int, float] = defaultdict(float)
        for token, probability in outcomes(partial(sampler.draw, distribution)):
            drawn[token] += probability
        assert drawn == pytest.approx(as_mapping(distribution), abs=1e-15)


def test_draws_of_a_real_generator_follow_the_distribution() -> None:
    """Else replies are skewed by the generator, whatever the enumeration says."""
    rng = np.random.default_rng(9)
    support = WEIGHTS > 1e-3
    drawn = np.bincount([draw_index(WEIGHTS, rng) for _ in range(20_000)], minlength=len(WEIGHTS))
    assert drawn[support].sum() == 20_000
    assert chisquare(drawn[support], WEIGHTS[support] / WEIGHTS[support].sum() * 20_000).pvalue > 1e-3
