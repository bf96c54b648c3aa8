"""The graph of a plan: who waits for whom, in which waves, and how long it takes."""

from __future__ import annotations

import gc

import networkx as nx
from hypothesis import given, strategies as st

from wavewright.planner.language.plan import Gate, Plan, Step
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import step_reads, step_texts, texts_read
from wavewright.planner.types import GateId, StepId


def step(
    name: str,
    *after: str,
    params: str | None = None,
    when: str | None = None,
    for_each: str | None = None,
) -> Step:
    return Step(
        id=StepId(name),
        tool="tool",
        depends_on=tuple(StepId(other) for other in after),
        params={} if params is None else {"value": params},
        when=when,
        for_each=for_each,
    )


def graph_of(*steps: Step, gates: tuple[Gate, ...] = ()) -> PlanGraph:
    return PlanGraph.of(Plan(steps=steps, gates=gates))


DIAMOND = (step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))


def test_a_plan_has_one_graph_and_its_changed_copy_another() -> None:
    plan = Plan(steps=DIAMOND)
    shorter = plan.model_copy(update={"steps": DIAMOND[:3]})

    assert PlanGraph.of(plan) is PlanGraph.of(plan)
    assert PlanGraph.of(shorter).terminal == ("b", "c")
    assert PlanGraph.of(plan).terminal == ("d",)


def test_a_graph_goes_with_its_plan() -> None:
    def graphs() -> int:
        gc.collect()
        return sum(type(found) is PlanGraph for found in gc.get_objects())

    before = graphs()
    for _ in range(3):
        PlanGraph.of(Plan(steps=DIAMOND))

    assert graphs() <= before


def test_a_diamond_has_three_waves() -> None:
    graph = graph_of(*DIAMOND)

    assert graph.waves == (("a",), ("b", "c"), ("d",))
    assert (graph.width, graph.depth) == (2, 3)
    assert graph.terminal == ("d",)
    assert graph.edges == (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


def test_the_order_of_the_text_does_not_matter_for_the_waves() -> None:
    graph = graph_of(*reversed(DIAMOND))

    assert graph.waves == (("a",), ("c", "b"), ("d",))


def test_references_in_every_field_are_dependencies() -> None:
    graph = graph_of(
        step("a"),
        step("b"),
        step("c"),
        step("d", params="text with ${steps.a.x}", when="has(steps.b)", for_each="${steps.c}"),
    )

    assert set(graph.dependencies[StepId("d")]) == {"a", "b", "c"}


def test_escaped_references_are_text() -> None:
    graph = graph_of(step("a"), step("b", params="$${steps.a.x}"))

    assert not graph.dependencies[StepId("b")]


def test_a_gated_step_waits_for_what_its_gate_reads() -> None:
    gate = Gate(id=GateId("agrees"), on=StepId("a"), check="steps.a.x == steps.b.x")

    graph = graph_of(step("a"), step("b"), step("c", "a"), gates=(gate,))

    assert [*graph.dependencies[StepId("a")]] == ["b"]
    assert graph.waves == (("b",), ("a",), ("c",))


def test_a_step_that_only_a_gate_reads_is_still_terminal() -> None:
    gate = Gate(id=GateId("agrees"), on=StepId("a"), check="steps.b.x > 1")

    graph = graph_of(step("a"), step("b"), gates=(gate,))

    assert graph.terminal == ("a", "b")


def test_unknown_names_and_the_step_itself_are_no_dependencies() -> None:
    graph = graph_of(step("a", "a", "nobody", params="${steps.ghost}"))

    assert graph.edges == ()


def test_the_critical_path_is_the_slowest_chain() -> None:
    graph = graph_of(*DIAMOND)

    path = graph.critical_path({StepId("a"): 1, StepId("b"): 5, StepId("c"): 2, StepId("d"): 1})

    assert path.steps == ("a", "b", "d")
    assert path.seconds == 7


def test_priorities_say_how_much_is_still_to_come() -> None:
    graph = graph_of(*DIAMOND)

    priorities = graph.priorities(lambda one: 5.0 if one.id == "b" else 1.0)

    assert priorities == {"a": 7, "b": 6, "c": 2, "d": 1}


def test_ancestors_and_descendants_are_transitive() -> None:
    graph = graph_of(*DIAMOND)

    assert graph.ancestors(StepId("d")) == {"a", "b", "c"}
    assert graph.descendants(StepId("a")) == {"b", "c", "d"}


def test_a_cycle_is_named_and_what_stands_outside_is_still_ordered() -> None:
    graph = graph_of(
        step("free"), step("a", "c", "free"), step("b", "a"), step("c", "b"), step("after", "c")
    )

    assert graph.cycles == (("a", "c", "b"),)
    assert graph.waves == (("free",),)


def test_each_knot_gives_one_cycle_and_the_shortest_through_its_first_step() -> None:
    graph = graph_of(
        step("a", "b"),
        step("b", "a", "c"),
        step("c", "a"),
        step("x", "y"),
        step("y", "x"),
        step("between", "a"),
    )

    assert graph.cycles == (("a", "b"), ("x", "y"))


def test_a_chain_of_thirty_thousand_steps_has_a_graph() -> None:
    count = 30_000
    chain = [step("s0")] + [step(f"s{number}", f"s{number - 1}") for number in range(1, count)]

    graph = graph_of(*chain)
    knotted = graph_of(step("s0", f"s{count - 1}"), *chain[1:])

    assert graph.depth == count
    assert graph.critical_path(dict.fromkeys(graph.steps, 1.0)).seconds == count
    assert len(knotted.cycles[0]) == count


@st.composite
def plans(draw: st.DrawFn, *, may_have_cycles: bool = False) -> Plan:
    count = draw(st.integers(1, 12))
    steps: list[Step] = []
    for number in range(count):
        others = st.sampled_from(
            [f"s{other}" for other in range(count if may_have_cycles else number)] or ["none"]
        )
        steps.append(step(f"s{number}", *draw(st.sets(others, max_size=4))))
    return Plan(steps=tuple(draw(st.permutations(steps))))


def plain_digraph(plan: Plan) -> nx.DiGraph[str]:
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(one.id for one in plan.steps)
    found.add_edges_from(
        (other, one.id) for one in plan.steps for other in one.depends_on if other != one.id
    )
    found.remove_nodes_from(
        [other for other in found if other not in {one.id for one in plan.steps}]
    )
    return found


@given(plans())
def test_waves_are_the_generations_that_networkx_finds(plan: Plan) -> None:
    graph = PlanGraph.of(plan)

    generations = [
        set(generation) for generation in nx.topological_generations(plain_digraph(plan))
    ]

    assert [set(wave) for wave in graph.waves] == generations


@given(plans())
def test_every_dependency_lies_in_an_earlier_wave(plan: Plan) -> None:
    graph = PlanGraph.of(plan)
    wave = graph.wave_of()

    assert all(wave[before] < wave[after] for before, after in graph.edges)
    assert sorted(graph.order()) == sorted(one.id for one in plan.steps)


@given(plans(may_have_cycles=True))
def test_cycles_are_found_exactly_where_networkx_finds_them(plan: Plan) -> None:
    graph = PlanGraph.of(plan)
    found = plain_digraph(plan)

    assert bool(graph.cycles) != nx.is_directed_acyclic_graph(found)
    knots = [knot for knot in nx.strongly_connected_components(found) if len(knot) > 1]
    assert len(graph.cycles) == len(knots)
    for cycle in graph.cycles:
        assert all(
            following in graph.dependencies[waiting]
            for waiting, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        )


@given(plans())
def test_no_chain_is_longer_than_the_critical_path(plan: Plan) -> None:
    graph = PlanGraph.of(plan)
    path = graph.critical_path(dict.fromkeys(graph.steps, 1.0))

    assert path.seconds == graph.depth
    assert all(
        before in graph.dependencies[after]
        for before, after in zip(path.steps, path.steps[1:], strict=False)
    )


def test_a_step_reads_what_its_texts_do_in_their_order() -> None:
    step = Step(
        id=StepId("s"),
        tool="add",
        params={
            "list": ["${steps.a.v}", {"in": ["${steps.b.v[0]}", 7]}, "${inputs.a}"],
            "text": "from ${steps.c.v} to ${steps.a.v}, not $${steps.x}",
            "faulty": "${steps.",
            "plain": "steps.x",
        },
        for_each=["${steps.d.row}"],
        when="steps.e.n > 1",
    )

    assert step_reads(step) == ("a", "b", "c", "d", "e")
    assert step_reads(step) == texts_read(step_texts(step, 0))
