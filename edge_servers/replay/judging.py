"""The root set of a chain, drawn again from its data set: with it an audit judges as the servers did (P7)."""

from clients.data import dataset_of
from clients.errors import ClientError
from clients.models import network_for
from edge_servers.errors import FederationError
from edge_servers.founding.parameters import FoundingParameters, tensors_of
from edge_servers.learning.jury import RootJury, jury_of


def founded_jury(founding: FoundingParameters, data_dir: str = "") -> RootJury | None:
    """Whoever judges by the root set that the founding names; None where it names none. `FederationError` where the
    data set is not here, or is another one.
    """
    if not founding.root:
        return None
    settings = founding.settings
    try:
        dataset = dataset_of(settings.data, data_dir)
        network = network_for(dataset, settings.training, settings.data.seed)
    except ClientError as error:
        raise FederationError(f"the root set cannot be drawn: {error}") from error
    if tensors_of(network) != founding.tensors:
        raise FederationError("root-set: found another model than the founding's, expected the one it was founded with")
    return jury_of(dataset, settings, network, founding.root)
