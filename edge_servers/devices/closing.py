"""The closed list (P4): whose gradients count. The filters of P7 run once, over all of them."""

from collections.abc import Callable, Iterable, Mapping

from chain.wire.address import Address
from clients.models import Vector
from edge_servers.founding.network import Network
from edge_servers.learning.filters import VERDICTS, deterministic_filter
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.learning.validation import loss_verdicts
from edge_servers.parameters import Settings


def close_list(
    good: Mapping[Address, Gradient],
    refused: Iterable[Refusal],
    model: Vector,
    settings: Settings,
    validation_loss: Callable[[Vector], float],
) -> Close:
    """The list of an honest leader: the good gradients but those that the filters take out; everyone else by name.

    First the leader's own verdicts, which need data, then what anybody can recompute.
    """
    text, removed = settings.rounds.filter, []
    if any(part in VERDICTS for part in text.split("+")):
        verdicts = loss_verdicts(list(good.values()), model, settings.training.learning_rate, validation_loss)
        removed = [Refusal(good[sender].node, "loss", detail) for sender, detail in verdicts.items()]
    judged = {refusal.node for refusal in removed}
    filters = deterministic_filter(text)
    result = filters([gradient for gradient in good.values() if gradient.node not in judged])
    removed += [Refusal(good[who].node, filters.reason, detail) for who, detail in result.removed.items()]
    out = {refusal.node for refusal in removed}
    accepted = tuple(sender for sender in sorted(good) if good[sender].node not in out)
    named = {refusal.node: refusal for refusal in [*refused, *removed]}  # what the filters say stands
    return Close(accepted, tuple(named[node] for node in sorted(named)))


def believed_refusals(server: int, refusals: Iterable[Refusal], network: Network, filter_text: str) -> list[Refusal]:
    """What may be believed of a server's word: who of its own cluster is out, for reasons that are not the leader's."""
    cluster = {f"server {server}", *(f"device {device.index}" for device in network.cluster(server))}
    reserved = {*VERDICTS, deterministic_filter(filter_text).reason}
    return [refusal for refusal in refusals if refusal.node in cluster and refusal.reason not in reserved]
