"""Idleness: nothing is asked until the database has changed, whoever changed it."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from faults.idleness import MAX_IDLE_S, Idleness
from faults.models import Lease

pytestmark = pytest.mark.django_db(transaction=True)


class Question:
    """A question that notes how often it was asked."""

    def __init__(self):
        self.asked, self.answer, self.now = 0, False, 1000.0
        self.idleness = Idleness(self, lambda: self.now)
        self.idleness.holds()  # the first turn is always taken

    def __call__(self):
        self.asked += 1
        return self.answer


def write(name):
    Lease.objects.create(name=name)


def elsewhere(act, *args):
    """Act over another connection to the database."""

    def run():
        try:
            act(*args)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.fixture
def question():
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite tells cheaply whether it has changed")
    return Question()


def test_an_idle_loop_asks_once_until_something_changes(question):
    assert [question.idleness.holds() for _ in range(50)] == [True] * 50
    assert question.asked == 1


@pytest.mark.parametrize("how", [write, lambda name: elsewhere(write, name)])
def test_a_change_by_anybody_makes_it_ask_again(question, how):
    assert question.idleness.holds()
    question.answer = True
    how("changed")
    assert not question.idleness.holds()
    assert question.asked == 2


def test_while_something_is_to_be_done_it_never_rests(question):
    question.answer = True
    assert [question.idleness.holds() for _ in range(3)] == [False] * 3


def test_it_takes_a_turn_now_and_then_though_nothing_changed(question):
    assert question.idleness.holds()
    question.now += MAX_IDLE_S
    assert not question.idleness.holds()
    assert question.idleness.holds()


def test_a_new_connection_is_not_taken_for_the_old_one(question):
    assert question.idleness.holds()
    connection.close()
    assert question.idleness.holds()
    assert question.asked == 2
