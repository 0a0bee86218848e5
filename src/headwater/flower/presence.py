"""Who is connected: nodes that nobody knows are asked who they are while the rounds go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from headwater.errors import InputError
from headwater.flower import messages
from headwater.flower.back_off import BackOff
from headwater.flower.exchange import Exchange
from headwater.flower.roster import Roster

log = logging.getLogger("headwater.flower")


@dataclass(frozen=True)
class Tag:
    """What a letter was about: a node's description, a client's update, or its test numbers."""

    kind: str
    number: int


class Presence:
    """The clients of a run and the letters to them.

    Args:
        grid: Flower's connection to the nodes.
        roster: the clients that are known.
        parameters: d, which every node's model must have.
        ttl: seconds after which Flower may drop a letter.
        reply_bytes: how large a reply is expected to be.
        ask_again: seconds after which a node that said nothing is greeted again.
    """

    def __init__(
        self,
        grid: Grid,
        roster: Roster,
        parameters: int,
        ttl: float,
        reply_bytes: int,
        ask_again: float,
    ) -> None:
        self.roster = roster
        self.round = 0  # that is under way: whoever joins now is asked from the next one on
        self._grid, self._parameters, self._ask_again = grid, parameters, ask_again
        self._exchange: Exchange[Tag] = Exchange(grid, ttl, reply_bytes)
        self._greetings: dict[int, BackOff] = {}  # of the nodes that were asked who they are

    @property
    def nodes(self) -> set[int]:
        """Flower's numbers of the nodes that are connected now."""
        return set(self._grid.get_node_ids())

    @property
    def clients(self) -> list[int]:
        """Numbers of the known clients that are connected now."""
        nodes = self.nodes
        return [m for m in range(len(self.roster)) if self.roster[m].node in nodes]

    def post(self, kind: str, client: int, content: RecordDict, round: int) -> None:
        """Send a letter to a client."""
        node = self.roster[client].node
        self._exchange.post(Tag(kind, client), node, kind, content, str(round))

    def answers(self) -> Iterator[tuple[Tag, Message]]:
        """Clients' answers as they come; on the way, newcomers are greeted and met."""
        connected = self.nodes
        self._greet(connected)
        for tag, reply in self._exchange.answers():
            if tag.kind == messages.DESCRIBE:
                self._meet(tag.number, reply, connected)
            else:
                yield tag, reply

    def pause(self) -> None:
        """Give the nodes a moment."""
        self._exchange.pause()

    def close(self) -> None:
        """Whoever answers from now on is too late; who they are, nodes may say at any time."""
        self._exchange.forget(lambda tag: tag.kind != messages.DESCRIBE)

    def _greet(self, connected: set[int]) -> None:
        # Who holds nothing has no share and is not asked to train, so nobody would hear of its
        # first samples: it is asked again until it has some. Replays bring theirs with the rounds.
        empty = {client.node for client in self.roster if not (client.held or client.declared)}
        for node in sorted(connected - (self.roster.nodes - empty)):
            if self._greetings.setdefault(node, BackOff(self._ask_again)).due():
                tag = Tag(messages.DESCRIBE, node)
                content = messages.request({"do": "describe"})
                self._exchange.post(tag, node, messages.DESCRIBE, content)

    def _meet(self, node: int, reply: Message, connected: set[int]) -> None:
        """Take in one node's description; one that makes no sense is named and left out."""
        self._greetings[node] = BackOff(self._ask_again, begun=True)
        if reply.has_error():
            log.warning("node %d does not say who it is: %s", node, reply.error.reason)
            return
        try:
            header = messages.header_of(reply.content)
            self._check_size(node, header.get("client-id"), header.get("parameters"))
            for name in self.roster.welcome({node: header}, connected, self.round):
                log.info("client %s joins", name)
            if node not in self.roster.nodes:
                raise InputError(f"its name {header['client-id']} is taken by another node")
        except (InputError, ValueError) as error:
            log.warning("node %d is left out: %s", node, error)

    def _check_size(self, node: int, name: object, size: object) -> None:
        if size is not None and size != self._parameters:
            raise InputError(
                f"client {name}: its model has {size} parameters, the server's has "
                f"{self._parameters} (node {node}); give both the same model"
            )
