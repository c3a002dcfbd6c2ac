"""What admits a block: the rules that need its state. Those that need none are in consensus.py."""

from collections.abc import Sequence

from chain.errors import (
    FoundingError,
    LeaderError,
    ReceiptRootError,
    SidecarSizeError,
    StateRootError,
    TransactionOrderError,
    TransactionRootError,
    UnregisteredSenderError,
    WinnerError,
)
from chain.node.body import Body
from chain.node.vm import Execution, call_registry
from chain.protocol.consensus import check_order
from chain.protocol.contract import PayloadSizes, registry_settings
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall, read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK
from chain.store.store import Store
from chain.wire.address import ADDRESS_BYTES
from chain.wire.headers import Header
from chain.wire.receipts import block_bloom, trie_root
from chain.wire.transactions import Transaction


def read_posts(header: Header, transactions: tuple[Transaction, ...], genesis: Genesis) -> tuple[SignedCall, ...]:
    """A block's transactions as posts, in their order; what needs no state, and therefore no lock."""
    _check_transaction_root(header, transactions)
    posts = tuple(read_signed_call(transaction, genesis) for transaction in transactions)
    check_order(posts)
    return posts


def executed_body(store: Store, header: Header, parent: Header, posts: tuple[SignedCall, ...]) -> Body:
    """A block's posts, executed here."""
    execution = Execution(store, parent, header.coinbase, header.timestamp, header.difficulty)
    receipts, gas = [], 0
    for post in posts:
        _check_sender(post, execution, store.genesis)
        outcome = execution.apply(post.transaction, post.sender, header.gas_limit - gas)
        receipts.append(outcome.receipt(gas))
        gas += outcome.gas
    return Body(posts, tuple(receipts), execution)


def check_body(header: Header, body: Body, genesis: Genesis) -> None:
    """Raise unless everything in the header follows from a body that was executed here."""
    _check_receipts(header, body)
    _check_state_root(header, body.execution)
    check_founding(header, body.execution, genesis)
    check_leader(header, body.execution, genesis)
    check_winner(header.block_number, header.extra_data, body.execution, genesis)


def _check_transaction_root(header: Header, transactions: tuple[Transaction, ...]) -> None:
    root = trie_root([transaction.raw for transaction in transactions])
    if root != header.transaction_root:
        raise TransactionRootError(
            f"block {header.block_number}: the transactions have root 0x{root.hex()}, "
            f"the header says 0x{header.transaction_root.hex()}"
        )


def _check_sender(post: SignedCall, execution: Execution, genesis: Genesis) -> None:
    if post.sender == genesis.founder_address:
        return
    if execution.parent.block_number == 0:
        raise UnregisteredSenderError(f"{post.sender} is not the founder, and nothing is founded yet")
    if not any(call_registry(execution, genesis, "home", post.sender)):
        raise UnregisteredSenderError(f"{post.sender} is not registered in this network")


def check_payloads(header: Header, posts: Sequence[SignedCall], genesis: Genesis, sizes: PayloadSizes) -> None:
    """Raise unless what the posts of a block say of payloads is such as the registry could take: of its round and
    attempt, one per sender and slot, of founded sizes. Reverted posts bring payloads too: this bounds them, and no two
    nodes differ in what they take (B4).
    """
    seen, begun = set[object](), _begun(posts)
    expected = (header.block_number - FOUNDING_BLOCK, 0 if begun is None else begun.begins)
    for post in posts:
        if not post.commitments:
            continue
        if post.post is None or header.block_number == FOUNDING_BLOCK:
            if post.sender != genesis.founder_address or header.block_number != FOUNDING_BLOCK:
                raise UnregisteredSenderError(
                    f"{post.sender} is not the founder, and founds nothing in block {header.block_number}"
                )
            continue
        if (post.post.round, post.post.attempt) != expected:
            raise TransactionOrderError(
                f"found a post of round {post.post.round}, attempt {post.post.attempt} in block {header.block_number}"
            )
        if post.call is not None and not sizes.fits(post.call.name, post.post.size):
            raise SidecarSizeError(f"found {post.post.size} bytes of {post.call.name}, which was not founded")
        if (place := (post.sender, post.post.slot)) in seen:
            raise TransactionOrderError(f"found two posts of {post.sender} for one slot")
        seen.add(place)


def _begun(posts: Sequence[SignedCall]) -> SignedCall | None:
    """The certificate of the attempt that a block has the posts of (D3.2); None for attempt 0."""
    return next((post for post in posts if post.begins is not None), None)


def check_before_waiting(store: Store, header: Header, parent: Header, posts: Sequence[SignedCall]) -> None:
    """What a block must obey before a node waits for its payloads (B4): a lawful builder, a registered winner, posts of
    participants. With `check_payloads` that bounds what anybody can make a node wait for.
    """
    execution = Execution(store, parent, header.coinbase, header.timestamp, header.difficulty)
    begun = _begun(posts)
    if begun is not None:
        execution.apply(begun.transaction, begun.sender, header.gas_limit)
    check_leader(header, execution, store.genesis)
    if parent.block_number == 0:
        return
    check_winner(header.block_number, header.extra_data, execution, store.genesis)
    for sender in {post.sender for post in posts if post.post is not None}:
        if not any(call_registry(execution, store.genesis, "home", sender)):
            raise UnregisteredSenderError(f"{sender} is not registered in this network")


def _check_receipts(header: Header, body: Body) -> None:
    root = trie_root([receipt.encoded for receipt in body.receipts])
    if (header.receipt_root, header.gas_used) != (root, body.gas_used):
        raise ReceiptRootError(
            f"block {header.block_number}: executed here it has receipt root 0x{root.hex()} and gas "
            f"{body.gas_used}; the header says 0x{header.receipt_root.hex()} and {header.gas_used}"
        )
    bloom = block_bloom(body.receipts)
    if header.bloom != bloom:
        raise ReceiptRootError(
            f"block {header.block_number}: executed here it has the bloom filter 0x{bloom:x}; "
            f"the header says 0x{header.bloom:x}"
        )


def _check_state_root(header: Header, execution: Execution) -> None:
    root = execution.state_root()
    if root != header.state_root:
        raise StateRootError(
            f"block {header.block_number}: executed here it has state root 0x{root.hex()}, "
            f"the header says 0x{header.state_root.hex()}"
        )


def check_founding(header: Header, execution: Execution, genesis: Genesis) -> None:
    """Raise `FoundingError` for a first block after which no second one could come; anybody can seal one."""
    if header.block_number > 1:
        return
    if not execution.code(genesis.registry) or not call_registry(execution, genesis, "founded"):
        raise FoundingError("block 1 does not found the network: expected registry, participants and model 0")
    if registry_settings(call_registry(execution, genesis, "settings")).contract_seal:
        raise FoundingError("the registry of block 1 is sealed by calls, expected by blocks")


def check_leader(header: Header, execution: Execution, genesis: Genesis) -> None:
    """Raise `LeaderError` unless the builder leads the attempt that the block has the posts of (D3.1)."""
    if header.block_number == 1:
        lawful = header.coinbase == genesis.founder_address
    else:
        lawful = call_registry(execution, genesis, "is_lawful", header.coinbase)
    if not lawful:
        raise LeaderError(f"{header.coinbase} may not build block {header.block_number}: it does not lead this attempt")


def check_winner(number: int, winner: bytes, execution: Execution, genesis: Genesis) -> None:
    """Raise `WinnerError` unless a registered device seals the block; the founding has no winner."""
    if number == 1:
        if winner:
            raise WinnerError("the founding block is sealed by the founder: expected no winner")
    elif len(winner) != ADDRESS_BYTES or not call_registry(execution, genesis, "is_device", winner):
        raise WinnerError(f"block {number} names winner 0x{winner.hex()}, expected a registered device")
