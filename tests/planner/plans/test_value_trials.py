"""Trials: whether an expression has one value whatever is read."""

from __future__ import annotations

import pytest

from wavewright.planner.cel.nodes import Macro
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.plans.value_trials import ValueTrials
from wavewright.planner.types import JsonObject, JsonSchema

ROW: JsonObject = {
    "type": "object",
    "properties": {
        "price": {"type": "number"},
        "name": {"type": "string"},
        "day": {"type": "string"},
        "town": {"type": "string"},
        "kind": {"type": "string", "enum": ["rain", "snow", "wind"]},
        "year": {"type": "integer"},
        "month": {"type": "integer"},
    },
}
OUTPUT: JsonSchema = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "n": {"type": "integer"},
        "ok": {"type": "boolean"},
        "text": {"type": "string"},
        "day": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {"Row": ROW},
}


def is_constant(expression: str, *, is_typed: bool) -> bool:
    def type_of(root: str, name: str | None) -> JsonSchema:
        if root == "inputs" and name is not None:
            return {"type": "string" if name in {"town", "day"} else "integer"}
        return OUTPUT if root == "steps" and is_typed else {}

    tree = parse_expression(expression)
    return ValueTrials(expression, tree, type_of).is_constant(tree)


DECIDES = """
steps.a.total > 1000.0 && steps.a.total < 2000.0
steps.a.total > steps.b.total && steps.b.total > steps.c.total
steps.a.total == steps.b.total && steps.b.total == steps.c.total
steps.a.total >= 0.0
steps.a.total / steps.b.total > 0.35
(steps.a.total - steps.b.total) / steps.b.total * 100.0 > 5.0
math.abs(steps.a.total - steps.b.total) < 0.01
math.sqrt(steps.a.total) > 100.0
math.round(steps.a.total / 1000.0) > 5.0
steps.a.total > 3.0 * steps.b.total
steps.a.total >= 10.0 && steps.a.total <= 20.0 && steps.b.total >= 30.0 && steps.b.total <= 40.0
steps.a.n == 17
steps.a.n % 2 == 0
steps.total.n == 0 ? 0.0 : steps.total.total / steps.total.n
steps.a.n / 1e300 > 1.0
steps.a.n in [3, 5, 7]
steps.a.n >= inputs.n
steps.a.ok && steps.b.ok && steps.c.ok
!steps.a.ok
steps.a.text == 'flood'
steps.a.text != ''
steps.a.text.trim() == ''
steps.a.text.size() > 3
steps.a.text.matches('^[A-Z]{3}[0-9]+$')
steps.a.text.contains('flood') && steps.a.text.contains('fire')
steps.a.text.startsWith('A') && steps.a.text.endsWith('z')
steps.a.text.contains('@') && steps.a.text.contains('.') && !steps.a.text.contains(' ')
steps.a.text.split(',').size() > 2
double(steps.a.text) > 400.0
string(steps.a.n) == steps.b.text
steps.a.note == null
steps.a.tags.size() > 0
steps.a.tags.size() > 25
steps.a.tags.exists(t, t == 'red')
steps.a.tags.all(t, t.startsWith('r'))
'red' in steps.a.tags
sets.contains(steps.a.tags, ['red', 'blue', 'green', 'white'])
steps.a.rows.all(r, r.price > 0.0)
steps.a.rows.exists(r, r.price > 100.0 && r.name == 'Bel')
steps.a.rows.all(r, steps.b.rows.exists(q, q.name == r.name))
steps.a.rows.filter(r, r.price > 100.0).size() >= 2
steps.a.rows.map(r, r.price).max() - steps.a.rows.map(r, r.price).min() > 10.0
steps.a.rows.filter(r, r.price > 9.0).size() > steps.a.rows.filter(r, r.price <= 9.0).size()
steps.a.rows.sortBy(r, r.price)[0].name == 'Bel'
timestamp(steps.a.day) > timestamp('2024-03-01T00:00:00Z')
timestamp(steps.a.day).getFullYear() == 2024
timestamp(steps.a.day).getMonth() + 1 == 12
timestamp(steps.a.day) < now()
now() - timestamp(steps.a.day) < duration('720h')
steps.a.day >= '2024-01-01' && steps.a.day < '2025-01-01'
steps.a.day.substring(0, 4) == '2024'
has(steps.a.total)
has(steps.a.rows) && steps.a.rows.size() > 0
index == 10
item.name == 'Bel'
math.floor(steps.a.total / 250.0)
steps.a.rows.filter(r, r.name == 'Bel').map(r, r.price).sum()
cel.bind(x, steps.a.rows.map(r, r.price).sum(), x / double(steps.a.rows.size()) > 50.0)
steps.a.rows.map(r, r.price * steps.b.rates[r.name]).sum()
steps.a.rows.filter(r, r.name in steps.b.rates).map(r, r.price / steps.b.rates[r.name]).sum()
steps.a.rows.map(r, r.price * double(inputs.shares[r.name])).sum()
steps.a.rows.map(r, r.name).distinct().map(n, steps.a.rows.filter(r, r.name == n)[0].price * steps.b.rates[n]).sum()
lists.range(steps.a.rows.size()).map(i, steps.a.rows[i].price * steps.b.rows[i].price).sum()
lists.range(steps.a.rows.size()).filter(i, steps.a.rows[i].price > steps.b.rows[i].price).size()
steps.a.rows.transformList(i, r, r.price * steps.b.rows[i].price).sum()
steps.a.rows.map(a, a.price * steps.b.rows.filter(b, b.name == a.name)[0].price).sum()
cel.bind(by, steps.b.rows.transformMapEntry(i, r, {r.name: r.price}), steps.a.rows.map(r, by[r.name]).sum())
"""
RARELY_TRUE = """
r.town == 'Bel' && r.year == 2023 && r.month == 5 && r.kind == 'rain'
r.town == 'Bel' && r.name == 'Abe' && r.year == 2023 && r.price > 100.0
r.town == inputs.town && r.year == inputs.year && r.month == inputs.month
(r.town == 'Bel' || r.town == 'Abe') && (r.year == 2021 || r.year == 2022) && r.month >= 3 && r.month <= 5
r.name in ['Bel', 'Abe', 'Cal'] && r.year in [2021, 2022, 2023] && r.price > 3.5
r.day >= '2024-03-01' && r.day < '2024-04-01' && r.town == 'Bel'
r.day > '2024-03-01' && r.day < '2024-03-02' && r.town == 'Bel'
timestamp(r.day) > timestamp('2024-02-29') && timestamp(r.day) < timestamp('2024-03-02')
r.day > '2024-03-01T08:00:00Z' && r.day < '2024-03-01T09:00:00Z' && r.town == 'Bel'
timestamp(r.day) > timestamp('2024-03-01T08:00:00Z') && timestamp(r.day) < timestamp('2024-03-01T09:00:00Z')
r.day.substring(0, 7) == '2023-12' && r.town == 'Bel'
r.day.split('-')[0] == '2023' && r.day.split('-')[1] == '12'
int(r.day.substring(0, 4)) == 2023 && int(r.day.substring(5, 7)) == 12
timestamp(r.day).getFullYear() == 2023 && timestamp(r.day).getMonth() == 4
timestamp(r.day).getFullYear() == 2023 && timestamp(r.day).getMonth() == 4 && timestamp(r.day).getDate() == 17
timestamp(r.day).getFullYear() == inputs.year && r.town == inputs.town
timestamp(r.day).getMonth() == 1 && timestamp(r.day).getDate() == 29
timestamp(r.day).getDayOfWeek() == 0 && timestamp(r.day).getHours() == 12
timestamp(r.day).getDayOfYear() == 100
format(timestamp(r.day), '%Y-%m') == '2023-05'
format(timestamp(r.day), '%d.%m.%Y') == '17.05.2023'
format(timestamp(r.day), '%B %Y') == 'March 2024'
timestamp(r.day) - timestamp(inputs.day) == duration('24h')
timestamp(r.day) - timestamp(inputs.day) > duration('48h') && timestamp(r.day) - timestamp(inputs.day) < duration('96h')
r.name.startsWith('Be') && r.name.contains('l') && r.name.endsWith('er')
r.name.split(' ')[0] == 'Mary' && r.name.split(' ')[1] == 'Smith'
double(r.name.split(':')[1].trim()) > 3.0
r.price * 1.8 + 32.0 > 100.0 && r.price * 1.8 + 32.0 < 110.0
r.price / double(r.month) > 12.5 && r.price / double(r.month) < 13.0
steps.b.rows.exists(q, q.year == 2022 && q.name == r.name && q.price > r.price)
steps.b.rows.exists(q, q.year == r.year - 1 && q.name == r.name && q.price > r.price)
r.day == format(now(), '%Y-%m-%d')
r.day == string(now() - duration('24h')).substring(0, 10) && r.town == 'Bel'
r.day.startsWith(format(now(), '%Y-%m')) && timestamp(r.day).getHours() > 12
r.day.split('-')[0] == string(now().getFullYear())
format(timestamp(r.day), '%G-%V') == format(now() + duration('168h'), '%G-%V')
timestamp(r.day).getDayOfYear() == (now() - duration('24h')).getDayOfYear()
cel.bind(today, format(now(), '%Y-%m-%d'), r.day == today)
timestamp(r.day).getFullYear() == now().getFullYear() && timestamp(r.day).getMonth() == 2
"""
FOR_ROWS = ("steps.a.rows.filter(r, {})", "steps.a.rows.filter(r, {}).map(r, r.price).sum()")
RARE = """
steps.a.rates.size() > 0
steps.a.rates.exists(k, k == 'EUR')
steps.a.tags == ['red', 'blue']
sets.equivalent(steps.a.rows.map(r, r.name), ['Bel', 'Abe', 'Cal'])
steps.a.rows.sortBy(r, -r.price).slice(0, 2).map(r, r.name) == ['Bel', 'Abe']
steps.a.rows.map(r, r.month).max() == 12 && steps.a.rows.map(r, r.month).min() == 4
steps.a.total - steps.b.total == 5.0
math.round(steps.a.total / steps.b.total * 100.0) == 25
steps.a.text == 'a' && steps.b.text == 'b' && steps.c.text == 'c' && steps.d.text == 'd'
"""


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "open"])
@pytest.mark.parametrize("expression", f"{DECIDES.strip()}{RARE}".splitlines())
def test_what_the_data_decides_is_no_constant(expression: str, *, is_typed: bool) -> None:
    assert not is_constant(expression, is_typed=is_typed)


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "open"])
@pytest.mark.parametrize("condition", RARELY_TRUE.strip().splitlines())
def test_what_is_rarely_true_is_no_constant(condition: str, *, is_typed: bool) -> None:
    for form in FOR_ROWS:
        assert not is_constant(form.format(condition), is_typed=is_typed)


DECIDED = """
steps.a.total == steps.a.total
steps.a.total > 9.0 || steps.a.total <= 9.0
steps.a.total > 9.0 && steps.a.total < 5.0
(steps.a.total > steps.b.total) != (steps.a.total <= steps.b.total)
(steps.a.total > steps.b.total) == (steps.b.total < steps.a.total)
steps.a.total > 1.0 ? steps.a.total > 1.0 : steps.a.total <= 1.0
steps.a.total * 0.0 + 9.0
steps.a.total - steps.a.total
math.abs(steps.a.total) >= 0.0
steps.a.total in [steps.a.total, 4.0]
steps.a['total'] == steps.a.total
steps.a.rows.map(r, r.name).size() == steps.a.rows.size()
steps.a.rows.all(r, r in steps.a.rows)
steps.a.rows.filter(r, r.price > r.price).size() > 0
steps.a.text.contains('')
steps.a.text.startsWith(steps.a.text)
steps.a.tags.size() >= 0
steps.a.tags.slice(0, 0).size() == 0
has(steps.a.total) || !has(steps.a.total)
steps.a.rows.filter(r, r.town == 'Bel' && r.town == 'Abe')
steps.a.rows.filter(r, r.year == 2023 && r.year == 2024)
steps.a.rows.filter(r, r.year > 2023 && r.year < 2020)
steps.a.rows.filter(r, timestamp(r.day).getMonth() == 12)
steps.a.rows.filter(r, timestamp(r.day).getFullYear() == 2023 && timestamp(r.day).getFullYear() == 2024)
steps.a.rows.filter(r, r.name.startsWith('a') && r.name == '')
steps.a.rows.exists(r, r.price > 1.0 && r.price != r.price)
cel.bind(x, steps.a.total, x == x)
"""


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "open"])
@pytest.mark.parametrize("expression", DECIDED.strip().splitlines())
def test_what_has_one_value_whatever_is_read_is_a_constant(
    expression: str, *, is_typed: bool
) -> None:
    assert is_constant(expression, is_typed=is_typed)


def test_a_text_of_a_figure_is_never_empty_where_it_is_known_to_be_one() -> None:
    assert is_constant("string(steps.a.total) != ''", is_typed=True)


def test_a_part_in_a_macro_is_tried_for_the_entries() -> None:
    expression = "steps.a.rows.filter(r, r.price > 9.0 || r.price <= 9.0)"
    tree = parse_expression(expression)
    trials = ValueTrials(expression, tree, lambda _, name: OUTPUT if name == "a" else {})

    assert isinstance(tree, Macro)
    assert trials.is_constant(tree.arguments[0])
    assert not trials.is_constant(tree)


def test_of_what_takes_too_long_to_try_nothing_is_said() -> None:
    assert not is_constant("lists.range(9999).map(i, i * steps.a.n).size() == 9999", is_typed=True)


def test_a_filter_by_many_fields_of_which_nothing_is_known_is_no_constant() -> None:
    conditions = (f"r.f{number} == 'v{number}'" for number in range(60))

    assert not is_constant(f"steps.a.rows.filter(r, {' && '.join(conditions)})", is_typed=False)


def test_of_what_takes_too_many_values_to_try_nothing_is_said() -> None:
    conditions = (f"r.f{number}.g{number} == 'v'" for number in range(12))
    never = f"steps.a.rows.filter(r, {' && '.join(conditions)} && r.f0 != r.f0)"

    assert not is_constant(never, is_typed=False)
