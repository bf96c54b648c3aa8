"""The rule-based game master: it takes what is named, keeps a talk open, and knows the state."""

from __future__ import annotations

import pytest

from wavewright.executor import MemoryJournal
from wavewright.packs.tabletop.game.events import GameEvent, Said
from wavewright.packs.tabletop.session import Game
from wavewright.packs.tabletop.turn.wording import is_nearly, named_in

pytestmark = pytest.mark.anyio


async def play(*messages: str) -> tuple[Game, list[list[GameEvent]]]:
    """Play some turns; return the game and the events of each turn."""
    async with Game.open(MemoryJournal(), seed="one") as game:
        turns = [[one.event async for one in game.turn(message)] for message in messages]
    return game, turns


def speakers(events: list[GameEvent]) -> set[str]:
    return {event.speaker for event in events if isinstance(event, Said)}


def texts(events: list[GameEvent]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Said))


async def test_using_a_thing_that_heals_nobody_drinks_nothing() -> None:
    game, [told] = await play("use lantern")

    assert game.state.player.has("healing potion", 1)
    assert "It gives light, and squeaks." in texts(told)


@pytest.mark.parametrize("message", ["drink", "drink the potion", "use healing potoin"])
async def test_a_potion_is_drunk_by_its_name_or_nearly_so(message: str) -> None:
    game, _ = await play(message)

    assert not game.state.player.has("healing potion", 1)


@pytest.mark.parametrize(
    "message",
    [
        "Hello Mira, what happened at the mine?",
        "hey mirra!",
        "What happened at the mine, Mira?",
        "Good evening Mira",
        "say hello to Mira",
        "Mira!",
    ],
)
async def test_a_greeting_begins_a_talk(message: str) -> None:
    _, [told] = await play(message)

    assert "mira" in {speaker.lower() for speaker in speakers(told)}


async def test_a_talk_goes_on_without_the_name_until_a_farewell() -> None:
    game, [_, second, third] = await play(
        "Hello Mira", "And what lives in the tunnel?", "Goodbye then"
    )

    assert "Spiders in the tunnel." in texts(second)
    assert "Spiders" not in texts(third)
    assert game.state.dialogue == ()


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Hello Mira, what happened at the mine?", "Spiders in the tunnel."),
        ("Mira, who lives down there?", "Spiders in the tunnel."),
        ("Mira, what do you sell?", "Eight gold for a healing potion."),
        ("Mira, how much is a potion?", "Eight gold for a healing potion."),
        ("Good morning, Mira", "Eight gold for a healing potion."),
        ("Mira, what about the potion?", "Eight gold for a healing potion."),
    ],
)
async def test_a_question_is_answered_by_an_offer_only_where_it_asks_for_one(
    question: str, line: str
) -> None:
    _, [told] = await play(question)

    assert line in texts(told)


async def test_an_ally_asks_no_wages() -> None:
    game, [*_, told] = await play("go to inn", "hire Sela for 10 gold", "Sela, are you ready?")

    assert game.state.creatures["sela"].side == "party"
    assert "Lead on." in texts(told)
    assert "Ten gold" not in texts(told)


async def test_nobody_offers_what_is_sold() -> None:
    _, [*_, told] = await play("go to smithy", "buy the key from Borin", "Borin, what else?")

    assert "Ten gold" not in texts(told)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("use the lantern", "lantern"),
        ("use the lanten", "lantern"),
        ("give her two herbs", "herb"),
        ("take the key", "iron key"),
        ("look around", None),
    ],
)
async def test_a_thing_is_named_as_it_is_written_or_nearly_so(text: str, name: str | None) -> None:
    assert named_in(text, ["gold", "healing potion", "herb", "iron key", "lantern"]) == name


@pytest.mark.parametrize(
    "message",
    [
        "drink water",
        "I do not want to drink the potion",
        "don't drink it, look around",
        "use potion on Mira",
        "use",
        "use it",
        "should I drink the potion?",
        "Mira, drink the potion",
    ],
)
async def test_what_is_not_asked_for_is_not_drunk(message: str) -> None:
    game, _ = await play(message)

    assert game.state.player.has("healing potion", 1)


@pytest.mark.parametrize(
    ("word", "name"), [("her", "herb"), ("here", "herb"), ("kay", "key"), ("miner", "mira")]
)
def test_a_short_word_is_not_taken_for_another(word: str, name: str) -> None:
    assert not is_nearly(word, name)


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (("go to inn", "hire Sela", "hire Sela"), "Sela is with Rowan already."),
        (("walk to the moon",), "no way leads from Village square to 'moon'"),
        (("go towards the moon",), "no way leads from Village square to 'moon'"),
        (("climb up onto the roof",), "no way leads from Village square to 'roof'"),
        (("go to the square",), "Rowan is in Village square already"),
        (("look under the bed",), "There is no “bed” to be seen here."),
        (("open the chest",), "I do not know how to “open the chest”."),
        (("atack mira",), "Mira is no enemy"),
        (("don't drink the potion",), "Nothing of the kind is done."),
        (("help",), "You can: talk to Mira"),
        (("dance and go to the inn",), "I do not know how to “dance”."),
        (("go to inn", "How much is a potion"), "and ends poison. Nobody here sells it."),
        (("go to inn", "buy a potion"), "and ends poison. Nobody here sells it."),
        (("buy a rope",), "I do not know how to “buy a rope”."),
        (("give the rope to Mira",), "I do not know how to “give the rope to mira”."),
        (("buy a rope and go to the inn",), "“go to the inn” is left undone."),
        (("go to the gate and dance",), "I do not know how to “dance”."),
        (("go to smithy", "hand over ten gold and take the key"), "how to “take the key”."),
        (("give Mira a potion and a lantern",), "healing potion from Rowan. Mira gets 1 lantern"),
        (("Mira, sell me a potion and go to the inn",), "“go to the inn” is left undone."),
        (("look at the well and sing",), "I do not know how to “sing”."),
        (("roll 2d6 and 1d4",), "Rowan rolls 1d4 for luck"),
        (("buy a healing potion and a rope",), "I do not know how to “buy a rope”."),
        (("drink a potion and a rope",), "I do not know how to “drink a rope”."),
        (("visit the moon please",), "no way leads from Village square to 'moon'"),
        (("approach Sela",), "Sela is not here."),
        (("walk over to Borin, please",), "Borin is not here."),
        (("approach Mira",), "I do not know how to “approach mira”."),
        (("go to Sela's house",), "no way leads from Village square to"),
        (("go to gate", "go to entrance", "look around"), "Mine entrance. Broken props"),
        (("go to gate", "go to entrance", "what do I carry?"), "carries 25 gold"),
        (("what did she say?",), "Nobody has said anything yet."),
        (("hello mira", "what did she say?"), "Eight gold for a healing potion."),
        (("hello mira", "go to inn", "what did she say?"), "Mira said: “Eight gold"),
        (("go to smithy", "hello, what happened at the mine?"), "They prayed down there"),
        (("go to the inn and talk to Sela",), "“talk to sela” is for your next turn."),
    ],
)
async def test_what_cannot_be_done_is_told_with_what_was_named(
    messages: tuple[str, ...], told: str
) -> None:
    _, turns = await play(*messages)

    assert told in texts(turns[-1])


@pytest.mark.parametrize("message", ["what's in my bag?", "How much gold do I have?", "help"])
async def test_a_question_about_the_player_or_the_game_is_not_for_who_is_talked_to(
    message: str,
) -> None:
    _, [_, told] = await play("Hello Mira", message)

    assert "mira" not in {speaker.lower() for speaker in speakers(told)}


@pytest.mark.parametrize("message", ["...", "?!", "🙂"])
async def test_a_message_without_words_shows_the_place(message: str) -> None:
    _, [told] = await play(message)

    assert "Ways: The Dry Boot inn" in texts(told)
    assert "I do not know how to" not in texts(told)


async def test_who_is_hired_takes_no_wages_again() -> None:
    game, _ = await play("go to inn", "hire Sela", "hire Sela again")

    assert game.state.player.has("gold", 15)


@pytest.mark.parametrize(
    "message",
    [
        "buy two potions from Mira",
        "buy 2 healing potions",
        "I'd like two potions",
        "I’ll take two healing potions",
        "buy two of the cheapest",
    ],
)
async def test_a_number_is_read_in_figures_and_in_words(message: str) -> None:
    game, _ = await play(message)

    assert game.state.player.has("healing potion", 3)


async def test_who_is_elsewhere_is_said_not_to_be_here() -> None:
    _, [told] = await play("talk to Borin")

    assert "Borin is not here." in texts(told)


async def test_what_is_for_sale_is_meant_where_nothing_is_named() -> None:
    game, _ = await play("go to smithy", "ask Borin about the key", "I would like to buy it")

    assert game.state.player.has("iron key", 1)


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        (["head to the smithy"], "smithy"),
        (["go north"], "gate"),
        (["go to inn", "leave"], "square"),
        (["go to gate", "go back"], "square"),
        (["go to gate", "go to square", "return"], "gate"),
        (["look around, then go to the inn"], "inn"),
        (["drink the potion and go north"], "gate"),
        (["do not go north"], "square"),
        (["go to the gate then to the entrance"], "entrance"),
        (["go to the gate, then the entrance"], "entrance"),
        (["Go to the gate. Then to the entrance."], "entrance"),
        (["go through the gate to the entrance"], "entrance"),
        (["I'd like to go to the inn and then back to the square"], "square"),
        (["go to the inn & back"], "square"),
        (["go to the inn", "leave the inn with Sela"], "square"),
        (["leave the square for the smithy"], "smithy"),
        (["leave Mira alone"], "square"),
        (["go to the inn", "exit"], "square"),
        (["go to the inn", "hire her", "take Sela to the square"], "square"),
        (["go to the inn", "talk to Sela", "hire her and go to the square"], "square"),
        (["talk to Mira", "leave her and go to the inn"], "inn"),
        (["go to the inn, not the smithy"], "inn"),
        (["don't go to the inn, go to the smithy"], "smithy"),
        (["ask Mira to go to the inn and attack Sela"], "square"),
    ],
)
async def test_a_way_is_taken_by_a_word_of_where_it_leads(messages: list[str], place: str) -> None:
    game, _ = await play(*messages)

    assert game.state.player.place == place


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("who is Mira?", "The village's healer"),
        ("examine the lantern", "It gives light, and squeaks."),
        ("what do I have in my bag?", "carries 25 gold"),
    ],
)
async def test_what_a_question_names_is_described(message: str, answer: str) -> None:
    _, [told] = await play(message)

    assert answer in texts(told)
    assert "do not know" not in texts(told)


async def test_what_is_asked_for_in_a_talk_is_what_the_person_sells() -> None:
    game, [_, bought, asked] = await play(
        "Hello Mira", "two, please", "I'd like to ask about the mine"
    )

    assert game.state.player.has("healing potion", 3)
    assert "Rowan gets 2 healing potion from Mira for 16 gold." in texts(bought)
    assert "mira" in speakers(asked)


@pytest.mark.parametrize("message", ["ask the smith about the shrine", "Hello blacksmith"])
async def test_a_person_is_meant_by_what_it_is(message: str) -> None:
    _, [_, told] = await play("go to smithy", message)

    assert "borin" in speakers(told)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("how much is a potion?", "Mira sells it for 8 gold."),
        ("read the notice", "Bounty for every horror"),
        ("status", "carries 25 gold"),
        ("look at the dragon", "There is no “dragon” to be seen here."),
    ],
)
async def test_what_is_looked_at_or_asked_for_is_told(message: str, answer: str) -> None:
    _, [told] = await play(message)

    assert answer in texts(told)


@pytest.mark.parametrize("message", ["give", "hand it over to Mira"])
async def test_nothing_is_handed_over_where_neither_a_thing_nor_a_number_is_said(
    message: str,
) -> None:
    game, _ = await play("Hello Mira", message)

    assert game.state.player.has("gold", 25)


@pytest.mark.parametrize(
    ("message", "place"), [("north", "gate"), ("the inn", "inn"), ("inn or gate", "square")]
)
async def test_the_name_of_a_way_alone_is_gone(message: str, place: str) -> None:
    game, _ = await play(message)

    assert game.state.player.place == place


async def test_a_greeting_where_nobody_is_has_no_answer() -> None:
    _, [_, told] = await play("north", "hello")

    assert "Nobody answers." in texts(told)
