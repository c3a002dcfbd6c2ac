"""What can go wrong on the chain. Each refusal has a class of its own, and keeps it across JSON-RPC (`error_named`)."""


class ChainError(Exception):
    """Any refusal of this package."""


class CodecError(ChainError):
    """Bytes that are no canonical array, or an array that has no canonical bytes."""


class KeyFileError(ChainError):
    """A key file that is missing, damaged, readable by others, or locked with another password."""


class SignedMemoryError(ChainError):
    """A key's memory of what it signed that cannot be opened or written: damaged, full, in use, or of another key."""


class SigningRefusedError(ChainError):
    """A statement that this key must not sign: it contradicts what it has signed, or is of a round that is past."""


class FreshMemoryError(SigningRefusedError):
    """A memory that is new or was restored: what its key signed before is unknown, so it waits for a new round."""


class ContractError(ChainError):
    """Arguments that no call of the registry takes."""


class StoreError(ChainError):
    """A chain database that cannot be opened or written: missing, damaged, full, in use, or of another network."""


class MiningError(ChainError):
    """Mining that cannot start, or a miner process that died."""


class WorkError(MiningError):
    """Mining work that is stale, not handed out, or a nonce for another header."""


# --- blocks


class InvalidBlockError(ChainError):
    """A block that is not admitted."""


class MalformedBlockError(InvalidBlockError):
    """Bytes that are no block."""


class UnknownParentError(InvalidBlockError):
    """A block whose parent this node does not have."""


class InvalidSealError(InvalidBlockError):
    """A nonce that does not solve the puzzle of its header."""


class WinnerError(InvalidBlockError):
    """A seal by somebody who is no registered device."""


class DifficultyError(InvalidBlockError):
    """A difficulty other than the rule gives."""


class TimestampError(InvalidBlockError):
    """A time before the parent's, or in the future."""


class GasLimitError(InvalidBlockError):
    """A gas limit or base fee other than the genesis fixed."""


class TransactionRootError(InvalidBlockError):
    """Transactions other than the header commits to."""


class ReceiptRootError(InvalidBlockError):
    """Receipts (or gas, or bloom) other than the transactions yield."""


class StateRootError(InvalidBlockError):
    """A state other than the transactions yield."""


class TransactionOrderError(InvalidBlockError):
    """Transactions out of the canonical order (C3)."""


class FoundingError(InvalidBlockError):
    """A first block that does not found the network (P2)."""


class LeaderError(InvalidBlockError):
    """A block built by a server whose turn it is not (P12)."""


class RoundRefusedError(InvalidBlockError):
    """A block that `check_round` refuses: its model does not follow from its own transactions (P13)."""


class WaitingBlockError(ChainError):
    """A block of which a stored payload is missing here (B4): neither valid nor invalid yet, and asked for again."""


class FinalityError(InvalidBlockError):
    """A block that would undo a final one (Q1)."""


class EndorsementError(ChainError):
    """A signature under a block that is nobody's here, or too few of them (Q1)."""


class PassError(ChainError):
    """A pass to an attempt that is nobody's here, or that cannot be (D3.2)."""


class ConflictError(ChainError):
    """Two final blocks on different branches (Q1): some servers signed both, and this node stops."""


class DivergedError(ChainError):
    """A majority of the servers has signed a block that this node refuses (D3.5): nothing is posted or signed here."""


# --- transactions


class TransactionRefusedError(ChainError):
    """A transaction that is not admitted."""


class MalformedTransactionError(TransactionRefusedError):
    """Bytes that are no EIP-1559 transaction."""


class SignatureError(TransactionRefusedError):
    """A signature that belongs to nobody."""


class ChainIdError(TransactionRefusedError):
    """A transaction for another network."""


class NotRegistryCallError(TransactionRefusedError):
    """A transaction to something other than the registry, or with value, or to no function of it."""


class UnregisteredSenderError(TransactionRefusedError):
    """A sender whom the registry does not know."""


class NonceError(TransactionRefusedError):
    """A replayed transaction, or one that leaves a gap."""


class KnownTransactionError(NonceError):
    """A transaction that is here already, pending or sealed."""


class OversizedTransactionError(TransactionRefusedError):
    """More bytes than any post of the protocol has."""


class SidecarError(TransactionRefusedError):
    """A payload beside a post that is not the one the post commits to (B1)."""


class SidecarSizeError(SidecarError):
    """A payload of another size than its post names."""


class SidecarDigestError(SidecarError):
    """A payload with another digest than its post names."""


class UnwantedSidecarError(SidecarError):
    """A payload that no pending post and no waiting block commits to, or that is here already."""


class MissingSidecarError(SidecarError):
    """A payload that is needed and not here."""


class GasError(TransactionRefusedError):
    """A gas allowance that is too small, or more than a block has."""


class PoolFullError(TransactionRefusedError):
    """The pool's memory bound is reached, or the sender's share of the block."""


class PhaseOrderError(TransactionRefusedError):
    """A post of an earlier phase than one its sender has posted already: in the block it could not keep its nonce."""


class RevertedError(TransactionRefusedError):
    """A call the registry refuses; the text is its reason."""


# --- ledger, proofs, inspection


class LedgerError(ChainError):
    """A ledger that does not answer as expected."""


class NodeUnreachableError(LedgerError):
    """No node answers, or its answer is no JSON-RPC."""


class NodeAwayError(NodeUnreachableError):
    """Nobody answers now: not there, too slow, or busy (HTTP 503). It may pass; a refusal does not."""


class IdentityError(LedgerError):
    """A certificate that names nobody of this network."""


class DoorError(LedgerError):
    """A method that is not open at the door where it was asked for."""


class DeadlineError(LedgerError):
    """Something that did not happen in time."""


class RpcError(LedgerError):
    """An error answer of a node that is none of ours."""


class ProofError(ChainError):
    """A proof that does not prove."""


class InspectionError(ChainError):
    """A chain that does not fit; says where first."""


def error_named(name: str) -> type[ChainError] | None:
    """The class of ours with this name, to raise on this side what was raised on the other."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, ChainError) else None
