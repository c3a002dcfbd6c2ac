"""What a device may leave at its home's SuperLink: its orders' worth, and no more."""

from edge_servers.remote.owed import Owed

NODE, OTHER = 11, 12


class Hours:
    def __init__(self) -> None:
        self.s = 0.0

    def now(self) -> float:
        return self.s


def owed(hours: Hours | None = None, most_bytes: int = 1 << 20) -> Owed:
    made = Owed((hours or Hours()).now)
    made.expect(most_bytes)
    made.ask("order", NODE, 60.0)
    return made


def test_a_reply_is_owed_by_the_device_that_was_asked() -> None:
    assert owed().may_announce(NODE, NODE, "order", 3)
    assert not owed().may_announce(OTHER, OTHER, "order", 3)
    assert not owed().may_announce(OTHER, NODE, "order", 3)
    assert not owed().may_announce(NODE, OTHER, "order", 3)
    assert not owed().may_announce(NODE, NODE, "another", 3)
    assert not owed().may_announce(NODE, NODE, "", 3)
    assert not owed().may_announce(NODE, NODE, "order", 65)


def test_pieces_are_taken_after_the_announcement_and_three_replies_worth_of_them() -> None:
    made = owed()
    most = made.most_bytes
    assert not made.may_bring(NODE, 1)
    assert made.may_announce(NODE, NODE, "order", 3)
    assert not made.may_bring(NODE, most + 1)
    assert not made.may_bring(OTHER, 1)
    assert [made.may_bring(NODE, most) for _ in range(4)] == [True, True, True, False]


def test_what_the_superlink_did_not_get_does_not_count() -> None:
    made = owed()
    for _ in range(20):
        assert made.may_announce(NODE, NODE, "order", 3)
        made.take_back("order")
    assert made.may_announce(NODE, NODE, "order", 3)
    for _ in range(20):
        assert made.may_bring(NODE, made.most_bytes)
        made.give_back(NODE, made.most_bytes)
    made.give_back(NODE, made.most_bytes)  # nobody gets more than he had
    assert [made.may_bring(NODE, made.most_bytes) for _ in range(4)] == [True, True, True, False]


def test_a_reply_is_announced_a_few_times_and_its_bytes_are_counted_once() -> None:
    made = owed()
    assert [made.may_announce(NODE, NODE, "order", 3) for _ in range(4)] == [True, True, True, False]
    assert [made.may_bring(NODE, made.most_bytes) for _ in range(4)] == [True, True, True, False]


def test_with_an_order_goes_what_was_left_of_it() -> None:
    hours = Hours()
    made = owed(hours)
    assert made.may_announce(NODE, NODE, "order", 3)
    hours.s = 60.0
    assert not made.may_announce(NODE, NODE, "order", 3)
    assert not made.may_bring(NODE, 1)
    made.ask("next", NODE, 60.0)
    assert not made.may_bring(NODE, 1)
    assert made.may_announce(NODE, NODE, "next", 3)
    assert [made.may_bring(NODE, made.most_bytes) for _ in range(4)] == [True, True, True, False]
