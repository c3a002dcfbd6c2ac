# pragma version 0.4.3
# pragma evm-version london
"""
@title Registry of a federated-learning network
@notice Who may post what, when (docs/spec: P2-P5, P12, P14-P17, B1, B2, Q1, D3). A post names its payload by digest
        (sha256) and size; the payload travels beside the chain. The contract checks role, round, attempt, duplicates
        and size, keeps the digest of the current round and emits an event.
        One contract serves the embedded chain, where a block is a round and the VM calls `begin_block`, and external
        networks, where devices call `seal`.
"""

MAX_SERVERS: constant(uint256) = 64
MAX_BATCH: constant(uint256) = 64
MAX_STEP: constant(uint256) = 100
# An unsigned post: at most 215 bytes of RLP around the 260 of a gradient.
MAX_SIGNED: constant(uint256) = 512
SIGNATURE: constant(uint256) = 65
# Type and fields of what servers sign beside the chain.
ENDORSEMENT_BYTES: constant(uint256) = 160
PASS_BYTES: constant(uint256) = 192
# EIP-712: what an endorsement is, and where it counts.
DOMAIN_TYPE: constant(bytes32) = keccak256("EIP712Domain(uint256 chainId,address verifyingContract)")
ENDORSEMENT_TYPE: constant(bytes32) = keccak256(
    "Endorsement(uint256 round,uint256 attempt,bytes32 block,uint256 time)"
)
PASS_TYPE: constant(bytes32) = keccak256(
    "Pass(uint256 round,uint256 attempt,uint256 endorsed,bytes32 block,uint256 time)"
)
# Who calls at the start of a block on the embedded chain; nobody has its key (EIP-4788).
SYSTEM: constant(address) = 0xffffFFFfFFffffffffffffffFfFFFfffFFFfFFfE

# What a sender posts once per attempt at a round; an iterate of step l has slot ITERATE + l.
PLAN: constant(uint256) = 0
GRADIENT: constant(uint256) = 1
CLOSE: constant(uint256) = 2
MODEL: constant(uint256) = 3
ENDORSE: constant(uint256) = 4
ROLL: constant(uint256) = 5
ITERATE: constant(uint256) = 16
# Bits of a mark behind those of the slots, and how many of them are what a server owes (D3.7).
SLEEP_AT: constant(uint256) = 118
OWED_BITS: constant(uint256) = 7
# What a flag names whose evidence is two signatures.
EQUIVOCATION: constant(uint256) = max_value(uint256)
DOUBLE_ENDORSEMENT: constant(uint256) = max_value(uint256) - 1
DOUBLE_PASS: constant(uint256) = max_value(uint256) - 2
BROKEN_PASS: constant(uint256) = max_value(uint256) - 3

# Blocks without a post after which a server is dormant, and how often what it then owes doubles (D3.7).
DORMANT_AFTER: constant(uint256) = 5
MOST_DOUBLINGS: constant(uint256) = 6

# What has happened in an attempt, in the last bits of `now`.
FOUNDED: constant(uint256) = 1
PLANNED: constant(uint256) = 2
CLOSED: constant(uint256) = 4
PUBLISHED: constant(uint256) = 8
AGREED: constant(uint256) = 16

# The founded sizes of payloads in bytes (B2): exact for gradient, iterate and model, at most for plan and close.
SIZES: constant(uint256) = 5
SIZE_BITS: constant(uint256) = 48
GRADIENT_SIZE: constant(uint256) = 0
ITERATE_SIZE: constant(uint256) = 1
MODEL_SIZE: constant(uint256) = 2
PLAN_SIZE: constant(uint256) = 3
CLOSE_SIZE: constant(uint256) = 4

event Registered:
    participant: indexed(address)
    home: indexed(address)

event Voted:
    participant: indexed(address)
    home: indexed(address)
    server: indexed(address)

event Founded:
    founder: indexed(address)
    parameters: bytes32
    model: bytes32

event AttemptBegun:
    round: indexed(uint256)
    leader: indexed(address)
    attempt: uint256

event Planned:
    round: indexed(uint256)
    leader: indexed(address)
    attempt: uint256
    digest: bytes32

event GradientPosted:
    round: indexed(uint256)
    sender: indexed(address)
    attempt: uint256
    digest: bytes32

event RollPosted:
    round: indexed(uint256)
    sender: indexed(address)
    attempt: uint256
    digest: bytes32

event Closed:
    round: indexed(uint256)
    leader: indexed(address)
    attempt: uint256
    digest: bytes32

event IteratePosted:
    round: indexed(uint256)
    sender: indexed(address)
    step: indexed(uint256)
    attempt: uint256
    digest: bytes32

event Flagged:
    round: indexed(uint256)
    offender: indexed(address)
    server: indexed(address)
    slot: uint256
    transaction_hash: bytes32
    expected: bytes32

event Excluded:
    round: indexed(uint256)
    participant: indexed(address)
    last_round: uint256

event ModelPublished:
    round: indexed(uint256)
    leader: indexed(address)
    attempt: uint256
    digest: bytes32

event Endorsed:
    round: indexed(uint256)
    server: indexed(address)
    digest: bytes32

event Sealed:
    round: indexed(uint256)
    winner: indexed(address)
    seal_hash: bytes32

FOUNDER: immutable(address)
CONTRACT_SEAL: immutable(bool)
TERM_CAP: immutable(uint256)
FLAG_WINDOW: immutable(uint256)
EXCLUSION_ROUNDS: immutable(uint256)
SEAL_DIFFICULTY: immutable(uint256)

# What every post asks for is in few words, because each word that is read or written is looked up in a tree.
# round << 128 | attempt << 64 | what has happened in it (FOUNDED ... AGREED)
now: uint256
# Five sizes of 48 bits, in the order of `payload_sizes`.
sizes: uint256
# home << 64 | last round of the exclusion. A server's home is itself, a device's its edge server, anybody else's nobody.
members: HashMap[address, uint256]
servers: DynArray[address, MAX_SERVERS]
credit: public(HashMap[address, uint256])

model_digest: public(bytes32)
plan_digest: public(bytes32)
close_digest: public(bytes32)
published_by: public(address)
published_in: uint256
# The model that this round starts from, where rounds are sealed by calls: a later attempt starts from it again.
base_model: bytes32

# What the ranking of this round follows from (P12): the parent block, or the last seal.
parent_hash: public(bytes32)
winner_home: public(address)
reign_leader: public(address)
reign_terms: public(uint256)

# round << 192 | attempt << 128 | sleep when the round began << 118 | bit per slot; overwritten in every attempt: the
# state stays small.
marks: HashMap[address, uint256]

# offender -> server -> round of its last flag
flagged: HashMap[address, HashMap[address, uint256]]
votes: HashMap[address, HashMap[address, HashMap[address, bool]]]


@deploy
def __init__(
    contract_seal: bool,
    term_cap: uint256,
    flag_window: uint256,
    exclusion_rounds: uint256,
    seal_difficulty: uint256,
):
    assert term_cap > 0 and seal_difficulty > 0, "term cap and difficulty must be positive"
    # Sums of these and a round must not overflow: nobody could be flagged.
    assert max(flag_window, exclusion_rounds) < 2**62, "flag window and exclusion have 62 bits"
    FOUNDER = msg.sender
    CONTRACT_SEAL = contract_seal
    TERM_CAP = term_cap
    FLAG_WINDOW = flag_window
    EXCLUSION_ROUNDS = exclusion_rounds
    SEAL_DIFFICULTY = seal_difficulty


# --- founding (P2) and later additions


@external
def register(participants: DynArray[address, MAX_BATCH], homes: DynArray[address, MAX_BATCH]):
    """
    @notice The founder names the participants; servers before their devices.
    """
    self._require(msg.sender == FOUNDER, "only the founder registers")
    self._require(self.now & FOUNDED == 0, "already founded")
    self._require(len(participants) == len(homes), "one home per participant")
    for i: uint256 in range(len(participants), bound=MAX_BATCH):
        self._register(participants[i], homes[i])


@external
def found(parameters: bytes32, parameters_size: uint256, model: bytes32, sizes: uint256[SIZES]):
    """
    @notice Digests of the parameters and of model 0, and how large payloads are (B2). After this the network runs.
    """
    self._require(msg.sender == FOUNDER, "only the founder founds")
    self._require(self.now & FOUNDED == 0, "already founded")
    self._require(len(self.servers) > 0, "no edge server is registered")
    self._require(parameters_size > 0, "no parameters")
    packed: uint256 = 0
    for i: uint256 in range(SIZES):
        self._require(sizes[i] > 0 and sizes[i] < (1 << SIZE_BITS), "a payload has 1 byte to 2**48")
        packed |= sizes[i] << (SIZE_BITS * i)
    self.sizes = packed
    self.now |= FOUNDED
    self.model_digest = model
    self.published_by = msg.sender
    if CONTRACT_SEAL:
        self._begin(1, blockhash(block.number - 1), empty(address))
    log Founded(founder=msg.sender, parameters=parameters, model=model)


@external
def vote(participant: address, home: address):
    """
    @notice A strict majority of the servers that are not excluded adds a participant. A server takes part from the
            next round on: whose turn it is must not change within one.
    """
    round: uint256 = self._running() >> 128
    self._check_server(msg.sender, round)
    self._require(self.members[participant] == 0, "already registered")
    self.votes[participant][home][msg.sender] = True
    log Voted(participant=participant, home=home, server=msg.sender)
    yes: uint256 = 0
    active: uint256 = 0
    for server: address in self.servers:
        if not self._is_excluded(server, round):
            active += 1
            if self.votes[participant][home][server]:
                yes += 1
    if 2 * yes > active:
        self._register(participant, home)
        if participant == home:
            self.members[participant] |= round


# --- one function per transaction of a round


@external
def begin_block(winner: address, leader: address, parent_hash: bytes32):
    """
    @notice The system call at the start of a block (P12): who sealed and who led the parent.
    """
    assert msg.sender == SYSTEM, "only the chain itself begins a block"
    assert not CONTRACT_SEAL, "this network has no blocks of its own"
    if self.now >> 128 > 0:
        self._reign(leader)
    self._begin(block.number - 1, parent_hash, winner)


@external
def begin_attempt(
    round: uint256, attempt: uint256, times: DynArray[uint256, MAX_SERVERS], signatures: Bytes[MAX_SERVERS * SIGNATURE]
):
    """
    @notice The certificate of an attempt after the first (D3.2), by its leader: passes (EIP-712) of a strict majority
            of all servers that name no block, by ascending address. No block of a lower attempt becomes final any more.
    """
    now: uint256 = self._running()
    self._require(round == now >> 128, "wrong round")
    self._require(attempt > (now >> 64) % 2**64 and attempt < 2**32, "not a later attempt")
    self._require(CONTRACT_SEAL or now & PLANNED == 0, "a block has the posts of one attempt")
    now = (((round << 64) | attempt) << 64) | FOUNDED
    self._check_leader(now)
    passed: DynArray[address, MAX_SERVERS] = self._signers(
        self._pass(round, attempt, 0, empty(bytes32)), times, signatures
    )
    self._require(2 * len(passed) > len(self.servers), "no majority passed")
    self.now = now
    if CONTRACT_SEAL:
        self.model_digest = self.base_model
    log AttemptBegun(round=round, leader=msg.sender, attempt=attempt)


@external
def endorse(
    round: uint256,
    attempt: uint256,
    digest: bytes32,
    times: DynArray[uint256, MAX_SERVERS],
    signatures: Bytes[MAX_SERVERS * SIGNATURE],
):
    """
    @notice Servers' signatures (EIP-712) under a sealed block, by ascending address, posted by any participant, an
            excluded one too: what made the block final (Q1). Where rounds are sealed by calls they are under this round's
            plan, close and model (`result`), and none is sealed without those of a strict majority (B7).
    """
    now: uint256 = self._running()
    self._require(self.members[msg.sender] != 0, "not registered")
    if CONTRACT_SEAL:
        self._check_now(now, round, attempt)
        self._require(now & PUBLISHED != 0, "this round has no model")
        self._require(digest == self._result(), "not the result of this round")
    else:
        # Round k is block k + 1 (P1); the EVM knows the last 256.
        self._require(round > 0 and round < now >> 128, "wrong round")
        self._require(round + 256 >= now >> 128 and digest == blockhash(round + 1), "not a block of this chain")
    self._mark(now, ENDORSE)
    signers: DynArray[address, MAX_SERVERS] = self._signers(
        self._endorsement(round, attempt, digest), times, signatures
    )
    for server: address in signers:
        log Endorsed(round=round, server=server, digest=digest)
    if CONTRACT_SEAL and 2 * len(signers) > len(self.servers):
        self.now = now | AGREED


@external
def plan(round: uint256, attempt: uint256, digest: bytes32, size: uint256):
    now: uint256 = self._at(round, attempt)
    self._check_leader(now)
    assert now & PLANNED == 0, "this round is planned"
    assert size > 0 and size <= self._size(PLAN_SIZE), "a plan of this size was not founded"
    self._mark(now, PLAN)
    self.now = now | PLANNED
    self.plan_digest = digest
    log Planned(round=round, leader=msg.sender, attempt=attempt, digest=digest)


@external
def gradient(
    round: uint256,
    attempt: uint256,
    base_model: bytes32,
    plan_digest: bytes32,
    samples: uint256,
    iterations: uint256,
    digest: bytes32,
    size: uint256,
):
    now: uint256 = self._at(round, attempt)
    self._check_member(msg.sender, round)
    assert base_model == self.model_digest, "gradient for another base model"
    assert now & PLANNED != 0 and plan_digest == self.plan_digest, "gradient for another plan"
    assert now & CLOSED == 0, "this round is closed"
    assert samples > 0 and iterations > 0, "no samples or no iterations"
    assert size == self._size(GRADIENT_SIZE), "a gradient of this size was not founded"
    self._mark(now, GRADIENT)
    log GradientPosted(round=round, sender=msg.sender, attempt=attempt, digest=digest)


@external
def roll(round: uint256, attempt: uint256, plan_digest: bytes32, digest: bytes32, size: uint256):
    """
    @notice The gradients of its cluster that a server holds, and who is out and why (D3.6): what the close answers for.
    """
    now: uint256 = self._at(round, attempt)
    self._check_server(msg.sender, round)
    assert now & PLANNED != 0 and plan_digest == self.plan_digest, "a roll for another plan"
    assert now & CLOSED == 0, "this round is closed"
    assert size > 0 and size <= self._size(CLOSE_SIZE), "a roll of this size was not founded"
    self._mark(now, ROLL)
    log RollPosted(round=round, sender=msg.sender, attempt=attempt, digest=digest)


@external
def close(round: uint256, attempt: uint256, plan_digest: bytes32, digest: bytes32, size: uint256):
    now: uint256 = self._at(round, attempt)
    self._check_leader(now)
    assert now & PLANNED != 0, "this round is not planned"
    assert plan_digest == self.plan_digest, "a close for another plan"
    assert now & CLOSED == 0, "this round is closed"
    assert size > 0 and size <= self._size(CLOSE_SIZE), "a close of this size was not founded"
    self._mark(now, CLOSE)
    self.now = now | CLOSED
    self.close_digest = digest
    log Closed(round=round, leader=msg.sender, attempt=attempt, digest=digest)


@external
def iterate(round: uint256, attempt: uint256, step: uint256, close_digest: bytes32, digest: bytes32, size: uint256):
    now: uint256 = self._at(round, attempt)
    self._check_server(msg.sender, round)
    assert now & CLOSED != 0, "this round is not closed"
    assert close_digest == self.close_digest, "an iterate for another close"
    assert step <= MAX_STEP, "no such step"
    assert size == self._size(ITERATE_SIZE), "an iterate of this size was not founded"
    self._mark(now, ITERATE + step)
    log IteratePosted(round=round, sender=msg.sender, step=step, attempt=attempt, digest=digest)


@external
def flag(round: uint256, offender: address, slot: uint256, transaction_hash: bytes32, expected: bytes32):
    """
    @notice A server says that the offender's post in `slot` is wrong (expected digest). Whether that is so, whoever
            replays the round knows. Nobody is accused of being absent: a crash is no lie (D3.6).
    """
    self._check_accuser(round)
    self._require(transaction_hash != empty(bytes32), "a flag needs the post it is about")
    log Flagged(
        round=round,
        offender=offender,
        server=msg.sender,
        slot=slot,
        transaction_hash=transaction_hash,
        expected=expected,
    )
    self._flag(offender, round)


@external
def flag_equivocation(
    round: uint256,
    offender: address,
    first: Bytes[MAX_SIGNED],
    first_signature: Bytes[SIGNATURE],
    second: Bytes[MAX_SIGNED],
    second_signature: Bytes[SIGNATURE],
):
    """
    @notice Two different posts for one slot of one round, both signed by the offender: unsigned transactions and
            signatures (r, s, parity), recovered here. The same post signed twice (a higher fee, another nonce) is none.
    """
    self._check_accuser(round)
    hash_1: bytes32 = keccak256(first)
    hash_2: bytes32 = keccak256(second)
    self._require(hash_1 != hash_2, "the same transaction twice")
    slot_1: bytes32 = empty(bytes32)
    slot_2: bytes32 = empty(bytes32)
    said_1: bytes32 = empty(bytes32)
    said_2: bytes32 = empty(bytes32)
    slot_1, said_1 = self._signed_post(first)
    slot_2, said_2 = self._signed_post(second)
    self._require(slot_1 == slot_2, "not for the same slot")
    self._require(said_1 != said_2, "the same post twice")
    self._convict(round, offender, hash_1, first_signature, hash_2, second_signature, EQUIVOCATION)


@external
def flag_signatures(
    round: uint256,
    offender: address,
    first: Bytes[PASS_BYTES],
    first_signature: Bytes[SIGNATURE],
    second: Bytes[PASS_BYTES],
    second_signature: Bytes[SIGNATURE],
):
    """
    @notice Two things that one server signed beside the chain (type and fields of EIP-712, time last) and no honest one
            signs both of (Q1, D3.2): endorsements of two blocks in one attempt; two passes to one attempt that name
            different things; an endorsement, and a pass to a later attempt that hides it.
    """
    self._check_accuser(round)
    slot: uint256 = self._contradiction(first, second)
    self._convict(
        round, offender, self._typed(first), first_signature, self._typed(second), second_signature, slot
    )


@external
def model(round: uint256, attempt: uint256, close_digest: bytes32, digest: bytes32, size: uint256):
    now: uint256 = self._at(round, attempt)
    self._check_leader(now)
    assert now & CLOSED != 0, "this round is not closed"
    assert close_digest == self.close_digest, "a model for another close"
    assert now & PUBLISHED == 0, "this round has a model"
    assert size == self._size(MODEL_SIZE), "a model of this size was not founded"
    self._mark(now, MODEL)
    self.now = now | PUBLISHED
    self.published_by = msg.sender
    self.model_digest = digest
    if CONTRACT_SEAL:
        self.published_in = block.number
    log ModelPublished(round=round, leader=msg.sender, attempt=attempt, digest=digest)


@external
def seal(round: uint256, nonce: bytes8):
    """
    @notice The proof of work where nobody mines blocks (C7): the first valid nonce ends the round.
    """
    self._require(CONTRACT_SEAL, "here blocks are sealed, not rounds")
    now: uint256 = self._running()
    self._require(round == now >> 128, "wrong round")
    self._require(self._is_device(msg.sender), "only a registered device seals")
    self._require(now & PUBLISHED != 0, "this round has no model")
    self._require(now & AGREED != 0, "no majority has endorsed this round's result")
    self._require(block.number > self.published_in, "the publishing block is not there yet")
    found_hash: bytes32 = sha256(concat(self._puzzle(msg.sender), nonce))
    self._require(convert(found_hash, uint256) <= self._target(), "the nonce does not solve the puzzle")
    log Sealed(round=round, winner=msg.sender, seal_hash=found_hash)
    self._reign(self.published_by)
    self._begin(round + 1, found_hash, msg.sender)


# --- views


@external
@view
def server_list() -> DynArray[address, MAX_SERVERS]:
    return self.servers


@external
@view
def rank(server: address) -> uint256:
    """
    @notice The place of `server` in this round's ranking, max if it has none: it leads attempts a == rank mod its length.
    """
    return self._rank(server, self.now >> 128)[0]


@external
@view
def is_lawful(leader: address) -> bool:
    """
    @notice Whether `leader` leads the attempt that this block has the posts of.
    """
    return self._leads(leader, self.now)


@external
@view
def attempt() -> uint256:
    return (self.now >> 64) % 2**64


@external
@view
def is_dormant(server: address) -> bool:
    return self._is_dormant(server, self.now >> 128)


@external
@view
def is_device(participant: address) -> bool:
    return self._is_device(participant)


@external
@view
def is_excluded(participant: address) -> bool:
    return self._is_excluded(participant, self.now >> 128)


@external
@view
def excluded_through(participant: address) -> uint256:
    """
    @notice Last round of the participant's exclusion; 0 if there was none.
    """
    return self._excluded_through(self.members[participant])


@external
@view
def home(participant: address) -> address:
    """
    @notice A device's edge server, a server itself, nobody for whoever is not registered.
    """
    return self._home(self.members[participant])


@external
@view
def founded() -> bool:
    return self.now & FOUNDED != 0


@external
@view
def round() -> uint256:
    return self.now >> 128


@external
@view
def has_posted(participant: address, slot: uint256) -> bool:
    """
    @notice Whether the participant has posted in this slot of the running round.
    """
    return self._has_posted(participant, slot, self.now >> 128)


@external
@view
def anchor() -> uint256:
    """
    @notice Number of the block whose hash the next seal must be made over (chain/seal.py, contract_puzzle).
    """
    return self._anchor(block.number + 1)


@external
@view
def settings() -> (address, bool, uint256, uint256, uint256, uint256):
    """
    @notice Founder, sealed by calls, term cap, flag window, exclusion rounds, difficulty.
    """
    return FOUNDER, CONTRACT_SEAL, TERM_CAP, FLAG_WINDOW, EXCLUSION_ROUNDS, SEAL_DIFFICULTY


@external
@view
def payload_sizes() -> uint256[SIZES]:
    """
    @notice Bytes of a gradient, an iterate, a model; the most of a plan and of a close (B2). Zeros before the founding.
    """
    found: uint256[SIZES] = empty(uint256[SIZES])
    for i: uint256 in range(SIZES):
        found[i] = self._size(i)
    return found


@external
@view
def result() -> bytes32:
    """
    @notice What servers endorse where rounds are sealed by calls: this round's plan, close and model (B7).
    """
    return self._result()


# --- rules


@internal
@pure
def _require(holds: bool, why: String[64]):
    """As `assert`, in much less code (EIP-170), for what is called seldom."""
    assert holds, why


@internal
def _register(participant: address, home: address):
    self._require(participant != empty(address), "no address")
    self._require(self.members[participant] == 0, "already registered")
    if participant == home:
        self._require(len(self.servers) < MAX_SERVERS, "no room for another edge server")
        self.servers.append(participant)
    else:
        self._require(home != empty(address) and self._home(self.members[home]) == home, "the home is no edge server")
    self.members[participant] = convert(home, uint256) << 64
    log Registered(participant=participant, home=home)


@internal
def _begin(round: uint256, parent_hash: bytes32, winner: address):
    """Credit the winner and start attempt 0 of `round`."""
    self.now = (round << 128) | (self.now & FOUNDED)
    self.parent_hash = parent_hash
    if CONTRACT_SEAL:
        self.base_model = self.model_digest
    if self._is_device(winner):
        self.credit[winner] += 1
        self.winner_home = self._home(self.members[winner])
    else:
        self.winner_home = empty(address)


@internal
def _reign(leader: address):
    if leader == self.reign_leader:
        self.reign_terms += 1
    else:
        self.reign_leader = leader
        self.reign_terms = 1


@internal
@view
def _running() -> uint256:
    """`now`. The founding block is no round: where blocks are rounds, the first begins with the block after it."""
    now: uint256 = self.now
    assert now & FOUNDED != 0 and now >> 128 > 0, "not founded yet"
    return now


@internal
@view
def _at(round: uint256, attempt: uint256) -> uint256:
    """`now`, if that is this attempt at this round."""
    now: uint256 = self._running()
    self._check_now(now, round, attempt)
    return now


@internal
@pure
def _check_now(now: uint256, round: uint256, attempt: uint256):
    assert round == now >> 128, "wrong round"
    assert attempt == (now >> 64) % 2**64, "no such attempt"


@internal
@view
def _size(which: uint256) -> uint256:
    return (self.sizes >> (SIZE_BITS * which)) & ((1 << SIZE_BITS) - 1)


@internal
@pure
def _home(member: uint256) -> address:
    return convert(member >> 64, address)


@internal
@pure
def _excluded_through(member: uint256) -> uint256:
    return member & (2**64 - 1)


@internal
@view
def _result() -> bytes32:
    """Round and attempt, and what they gave."""
    return keccak256(
        concat(convert(self.now >> 64, bytes32), self.plan_digest, self.close_digest, self.model_digest)
    )


@internal
@pure
def _endorsement(round: uint256, attempt: uint256, digest: bytes32) -> Bytes[PASS_BYTES - 32]:
    """What a server signs, but for the time: this block in this attempt at this round."""
    return concat(ENDORSEMENT_TYPE, convert(round, bytes32), convert(attempt, bytes32), digest)


@internal
@pure
def _pass(round: uint256, attempt: uint256, endorsed: uint256, digest: bytes32) -> Bytes[PASS_BYTES - 32]:
    """What a server signs, but for the time: on to this attempt, and what it last endorsed (attempt + 1, block)."""
    return concat(
        PASS_TYPE, convert(round, bytes32), convert(attempt, bytes32), convert(endorsed, bytes32), digest
    )


@internal
@view
def _typed(said: Bytes[PASS_BYTES]) -> bytes32:
    """EIP-712's hash of type and fields."""
    domain: bytes32 = keccak256(concat(DOMAIN_TYPE, convert(chain.id, bytes32), convert(self, bytes32)))
    return keccak256(concat(0x1901, domain, keccak256(said)))


@internal
@pure
def _contradiction(first: Bytes[PASS_BYTES], second: Bytes[PASS_BYTES]) -> uint256:
    """What two things are that no honest server signs both of; reverts for any others."""
    is_pass: bool = extract32(first, 0) == PASS_TYPE
    self._require(is_pass or extract32(first, 0) == ENDORSEMENT_TYPE, "the first is neither endorsement nor pass")
    self._require(len(first) == (PASS_BYTES if is_pass else ENDORSEMENT_BYTES), "the first has another length")
    self._require(extract32(first, 32) == extract32(second, 32), "not of one round")
    attempt: uint256 = convert(extract32(first, 64), uint256)
    later: uint256 = convert(extract32(second, 64), uint256)
    if extract32(second, 0) == ENDORSEMENT_TYPE:
        self._require(len(second) == ENDORSEMENT_BYTES and not is_pass, "expected the endorsement first")
        differ: bool = extract32(first, 96) != extract32(second, 96)
        self._require(attempt == later and differ, "not two blocks of one attempt")
        return DOUBLE_ENDORSEMENT
    self._require(extract32(second, 0) == PASS_TYPE, "the second is neither endorsement nor pass")
    self._require(len(second) == PASS_BYTES, "the second has another length")
    if is_pass:
        differ: bool = slice(first, 96, 64) != slice(second, 96, 64)
        self._require(attempt == later and differ, "not two passes to one attempt")
        return DOUBLE_PASS
    named: uint256 = convert(extract32(second, 96), uint256)
    self._require(
        attempt < later and (
            named <= attempt or (named == attempt + 1 and extract32(first, 96) != extract32(second, 128))
        ),
        "the pass hides nothing",
    )
    return BROKEN_PASS


@internal
@view
def _signers(
    said: Bytes[PASS_BYTES - 32], times: DynArray[uint256, MAX_SERVERS], signatures: Bytes[MAX_SERVERS * SIGNATURE]
) -> DynArray[address, MAX_SERVERS]:
    """The servers that signed this, by ascending address."""
    count: uint256 = len(times)
    self._require(count > 0, "no signatures")
    self._require(len(signatures) == count * SIGNATURE, "one signature per time")
    signers: DynArray[address, MAX_SERVERS] = []
    last: uint256 = 0
    for i: uint256 in range(count, bound=MAX_SERVERS):
        signed: bytes32 = self._typed(concat(said, convert(times[i], bytes32)))
        server: address = self._signer(signed, slice(signatures, i * SIGNATURE, SIGNATURE))
        self._require(convert(server, uint256) > last, "signers must ascend")
        last = convert(server, uint256)
        member: uint256 = self.members[server]
        self._require(member != 0 and self._home(member) == server, "signed by no edge server")
        signers.append(server)
    return signers


@internal
@view
def _check_member(who: address, round: uint256) -> uint256:
    member: uint256 = self.members[who]
    assert member != 0, "not registered"
    last_round: uint256 = self._excluded_through(member)
    assert last_round == 0 or last_round < round, "excluded"
    return member


@internal
@view
def _check_server(who: address, round: uint256):
    assert self._home(self._check_member(who, round)) == who, "not an edge server"


@internal
@view
def _check_accuser(round: uint256):
    assert round == self._running() >> 128, "wrong round"
    self._check_server(msg.sender, round)


@internal
@view
def _check_leader(now: uint256):
    """The sender leads the attempt of `now`."""
    self._check_server(msg.sender, now >> 128)
    assert self._leads(msg.sender, now), "not the leader of this attempt"


@internal
def _mark(now: uint256, slot: uint256):
    """One submission per (round, attempt, slot, sender)."""
    marks: uint256 = self.marks[msg.sender]
    if marks >> 128 != now >> 64:
        marks = ((now >> 64) << 128) | (self._sleep(msg.sender, now >> 128) << SLEEP_AT)
    assert marks & (1 << slot) == 0, "already posted"
    self.marks[msg.sender] = marks | (1 << slot)


@internal
@view
def _has_posted(who: address, slot: uint256, round: uint256) -> bool:
    marks: uint256 = self.marks[who]
    return slot < SLEEP_AT and marks >> 192 == round and marks & (1 << slot) != 0


@internal
@view
def _is_device(who: address) -> bool:
    member: uint256 = self.members[who]
    return member != 0 and self._home(member) != who


@internal
@view
def _is_excluded(who: address, round: uint256) -> bool:
    last_round: uint256 = self._excluded_through(self.members[who])
    return last_round != 0 and last_round >= round


@internal
@view
def _may_lead(who: address, round: uint256) -> bool:
    """Whether the ranking of a round has this server: it is one, and was not excluded when the round began."""
    member: uint256 = self.members[who]
    if member == 0 or self._home(member) != who:
        return False
    last_round: uint256 = self._excluded_through(member)
    return last_round < round or (EXCLUSION_ROUNDS > 0 and last_round == round + EXCLUSION_ROUNDS)


@internal
@view
def _is_dormant(server: address, round: uint256) -> bool:
    return self._sleep(server, round) % 2**OWED_BITS != 0


@internal
@view
def _sleep(server: address, round: uint256) -> uint256:
    """
    D3.7, as it was when the round began: how often what a sleep costs has doubled << 7 | rounds in which a server must
    yet post before it is waited for. It falls asleep without a post in 5 blocks or more, of at least 2 leaders.
    """
    marks: uint256 = self.marks[server]
    sleep: uint256 = (marks % 2**128) >> SLEEP_AT
    last_seen: uint256 = marks >> 192
    if last_seen >= round:
        return sleep
    if sleep % 2**OWED_BITS > 1:
        return sleep - 1
    absent: uint256 = round - 1 - last_seen
    doublings: uint256 = sleep >> OWED_BITS
    if absent < DORMANT_AFTER or self.reign_terms >= absent:
        return doublings << OWED_BITS
    return (min(doublings + 1, MOST_DOUBLINGS) << OWED_BITS) | (1 << doublings)


@internal
@view
def _leads(who: address, now: uint256) -> bool:
    rank: uint256 = 0
    length: uint256 = 0
    rank, length = self._rank(who, now >> 128)
    return length > 0 and rank == ((now >> 64) % 2**64) % length


@internal
@view
def _rank(who: address, round: uint256) -> (uint256, uint256):
    """
    A server's place in the ranking and how long that is (P12): the winner's home first, then by
    sha256(block hash || address), the leader whose term is spent behind them, dormant servers last.
    """
    spent: address = empty(address)
    if self.reign_terms >= TERM_CAP:
        spent = self.reign_leader
    mine: uint256 = self._order(who, spent, round)
    before: uint256 = 0
    length: uint256 = 0
    for server: address in self.servers:
        if self._may_lead(server, round):
            length += 1
            if self._order(server, spent, round) < mine:
                before += 1
    if not self._may_lead(who, round):
        before = max_value(uint256)
    return before, length


@internal
@view
def _order(server: address, spent: address, round: uint256) -> uint256:
    order: uint256 = convert(sha256(concat(self.parent_hash, convert(server, bytes20))), uint256) >> 8
    if self._is_dormant(server, round):
        return order | (3 << 248)
    if server == spent:
        return order | (2 << 248)
    if server == self.winner_home:
        return order
    return order | (1 << 248)


@internal
def _convict(
    round: uint256,
    offender: address,
    signed_1: bytes32,
    first_signature: Bytes[SIGNATURE],
    signed_2: bytes32,
    second_signature: Bytes[SIGNATURE],
    slot: uint256,
):
    """A flag whose evidence is two signatures of the offender."""
    self._require(self._signer(signed_1, first_signature) == offender, "the first is not signed by the offender")
    self._require(self._signer(signed_2, second_signature) == offender, "the second is not signed by the offender")
    log Flagged(
        round=round, offender=offender, server=msg.sender, slot=slot, transaction_hash=signed_1, expected=signed_2
    )
    self._flag(offender, round)


@internal
def _flag(offender: address, round: uint256):
    """A strict majority of valid flags by servers that are not excluded excludes (P15)."""
    member: uint256 = self.members[offender]
    self._require(member != 0, "the offender is not registered")
    self._require(offender != msg.sender, "nobody flags itself")
    served: uint256 = self._excluded_through(member)  # flags up to here have had their effect
    self._require(served == 0 or served < round, "already excluded")
    self._require(self.flagged[offender][msg.sender] != round, "already flagged")
    self.flagged[offender][msg.sender] = round
    valid: uint256 = 0
    active: uint256 = 0
    for server: address in self.servers:
        if not self._is_excluded(server, round):
            active += 1
            flag_round: uint256 = self.flagged[offender][server]
            if flag_round > served and flag_round + FLAG_WINDOW >= round:
                valid += 1
    if 2 * valid > active:
        self.members[offender] = (convert(self._home(member), uint256) << 64) | (round + EXCLUSION_ROUNDS)
        log Excluded(round=round, participant=offender, last_round=round + EXCLUSION_ROUNDS)


@internal
@view
def _puzzle(device: address) -> bytes32:
    return sha256(
        concat(
            convert(chain.id, bytes32),
            convert(self, bytes32),
            convert(self.now >> 128, bytes32),
            blockhash(self._anchor(block.number)),
            self.model_digest,
            convert(device, bytes32),
        )
    )


@internal
@view
def _anchor(sealing_block: uint256) -> uint256:
    """The publishing block, or a later one once the EVM has forgotten its hash (256 blocks)."""
    if sealing_block <= self.published_in + 200:
        return self.published_in
    return self.published_in + (sealing_block - 1 - self.published_in) // 200 * 200


@internal
@view
def _target() -> uint256:
    if SEAL_DIFFICULTY == 1:
        return max_value(uint256)
    # 2**256 // difficulty without a 257-bit number.
    return (max_value(uint256) - SEAL_DIFFICULTY + 1) // SEAL_DIFFICULTY + 1


@internal
@pure
def _signer(unsigned_hash: bytes32, signature: Bytes[SIGNATURE]) -> address:
    self._require(len(signature) == SIGNATURE, "a signature has 65 bytes")
    r: uint256 = convert(extract32(signature, 0), uint256)
    s: uint256 = convert(extract32(signature, 32), uint256)
    parity: uint256 = convert(slice(signature, 64, 1), uint256)
    signer: address = ecrecover(unsigned_hash, parity + 27, r, s)
    self._require(signer != empty(address), "signed by nobody")
    return signer


@internal
@pure
def _number(data: Bytes[MAX_SIGNED], at: uint256, length: uint256) -> uint256:
    """The number in `length` bytes, at most 32."""
    if length == 0:
        return 0
    return convert(extract32(data, at), uint256) >> (8 * (32 - length))


@internal
@view
def _signed_post(unsigned: Bytes[MAX_SIGNED]) -> (bytes32, bytes32):
    """
    Which slot of which attempt an unsigned EIP-1559 transaction posts to, and what it says: digests and numbers, not
    gas and nonce. Its RLP is walked.
    """
    size: uint256 = len(unsigned)
    self._require(convert(slice(unsigned, 0, 1), uint256) == 2, "not an EIP-1559 transaction")
    list_prefix: uint256 = convert(slice(unsigned, 1, 1), uint256)
    self._require(list_prefix > 247, "not a call")
    at: uint256 = 2 + list_prefix - 247
    self._require(at + self._number(unsigned, 2, list_prefix - 247) == size, "not a call")
    # chain id, nonce, priority fee, fee, gas, to, value
    for i: uint256 in range(7):
        prefix: uint256 = convert(slice(unsigned, at, 1), uint256)
        self._require(prefix <= 160, "not a call")
        length: uint256 = 0
        field: uint256 = prefix
        if prefix >= 128:
            length = prefix - 128
            field = self._number(unsigned, at + 1, length)
        at += 1 + length
        self._require(i != 0 or field == chain.id, "for another chain")
        self._require(i != 5 or field == convert(self, uint256), "for another contract")
    data_prefix: uint256 = convert(slice(unsigned, at, 1), uint256)
    self._require(data_prefix > 183 and data_prefix <= 191, "not a call")
    data_size: uint256 = self._number(unsigned, at + 1, data_prefix - 183)
    at += 1 + data_prefix - 183
    # One byte is left for the empty access list.
    self._require(at + data_size + 1 == size, "not a call")
    selector: bytes4 = convert(slice(unsigned, at, 4), bytes4)
    step: bytes32 = empty(bytes32)
    words: uint256 = 5
    if selector == method_id("iterate(uint256,uint256,uint256,bytes32,bytes32,uint256)", output_type=bytes4):
        step = extract32(unsigned, at + 68)
        words = 6
    elif selector == method_id(
        "gradient(uint256,uint256,bytes32,bytes32,uint256,uint256,bytes32,uint256)", output_type=bytes4
    ):
        words = 8
    elif selector == method_id("plan(uint256,uint256,bytes32,uint256)", output_type=bytes4):
        words = 4
    else:
        self._require(
            (
                selector == method_id("close(uint256,uint256,bytes32,bytes32,uint256)", output_type=bytes4)
                or selector == method_id("roll(uint256,uint256,bytes32,bytes32,uint256)", output_type=bytes4)
                or selector == method_id("model(uint256,uint256,bytes32,bytes32,uint256)", output_type=bytes4)
            ),
            "not a post",
        )
    # What follows the arguments would be read by nobody, and make two posts of one.
    self._require(data_size == 4 + 32 * words, "not a post")
    slot: bytes32 = keccak256(concat(selector, slice(unsigned, at + 4, 64), step))
    return slot, keccak256(slice(unsigned, at, 4 + 32 * words))
