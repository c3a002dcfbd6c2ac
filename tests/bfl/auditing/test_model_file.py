"""The model file of a proof holds the proven tensors under their names, and nothing else (Q4)."""

import resource
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bfl.auditing.model_file import ProvenModel, check_model_file
from bfl.auditing.portable_proof import verify_proof
from chain.errors import ProofError
from tests.bfl.auditing.proof_folders import MODEL, ROUND, proof_in, rehash
from tests.bfl.runs import environment
from tests.policy.hostile_torch_files import Raw, calling, described, members_of, saved, with_pickle, zipped

PROVEN = ProvenModel(
    round=3,
    digest=b"\x11" * 32,
    block=b"\x22" * 32,
    tensors=[("layer.weight", [2, 3]), ("layer.bias", [3])],
    values=np.array([0, 1, 2, 3, 4, 5, -0.0, np.nan, 8], np.float32),
)
Content = dict[str, Any]


def content() -> Content:
    """What `export_model` writes."""
    values = torch.from_numpy(PROVEN.values.copy())
    tensors = {"layer.weight": values[:6].clone().reshape(2, 3), "layer.bias": values[6:].clone()}
    return {**PROVEN.about, "state_dict": tensors}


def check(found: Any) -> None:
    check_model_file(found if isinstance(found, bytes) else saved(found), PROVEN, "model-3.pt")


def test_the_proven_model_passes_also_with_nan_and_minus_zero() -> None:
    check(content())


def tensors(found: Content) -> Any:
    return found["state_dict"]


CHANGES: dict[str, tuple[Callable[[Content], Any], str]] = {
    "another round": (lambda c: c.update(round=4), "found round = 4, expected 3"),
    "a round that is true": (lambda c: c.update(round=True), "found round = True, expected 3"),
    "a round in floating point": (lambda c: c.update(round=3.0), r"found round = 3\.0, expected 3"),
    "another block": (lambda c: c.update(block="0x" + "33" * 32), "found block = '0x33"),
    "another digest": (lambda c: c.update(digest="0x" + "33" * 32), "found digest = '0x33"),
    "a block of lists": (lambda c: c.update(block=[[1]]), "found block = list, expected '0x22"),
    "one more key": (
        lambda c: c.update(more=1),
        "found the names .*'more' in it, expected round, digest, block,",
    ),
    "a key less": (lambda c: c.pop("block"), "found the names 'round', 'digest', 'state_dict' in it"),
    "other names": (lambda c: tensors(c).update(bias=tensors(c).pop("layer.bias")), "'bias' in state_dict"),
    "another order": (
        lambda c: tensors(c).update({"layer.weight": tensors(c).pop("layer.weight")}),
        "found the names 'layer.bias', 'layer.weight' in state_dict, expected layer.weight, layer.bias",
    ),
    "a tensor more": (lambda c: tensors(c).update(more=torch.ones(1)), "'more' in state_dict"),
    "another shape": (
        lambda c: tensors(c).update({"layer.weight": tensors(c)["layer.weight"].reshape(3, 2)}),
        r"'layer.weight': found float numbers of shape \[3, 2\], expected float, \[2, 3\]",
    ),
    "another cut": (
        lambda c: c.update(state_dict={"layer.weight": torch.arange(4.0), "layer.bias": torch.arange(4.0, 9.0)}),
        r"found float numbers of shape \[4\]",
    ),
    "another type": (
        lambda c: tensors(c).update({"layer.bias": tensors(c)["layer.bias"].double()}),
        "'layer.bias': found double numbers",
    ),
    "a part of more": (
        lambda c: tensors(c).update({"layer.bias": torch.cat([tensors(c)["layer.bias"], torch.ones(3)])[:3]}),
        "found it in 6 numbers, expected its own 3 and no others",
    ),
    "no tensor": (lambda c: tensors(c).update({"layer.bias": [6.0]}), "'layer.bias': found list, expected a tensor"),
    "an ordered dictionary": (
        lambda c: c.update(state_dict=OrderedDict(tensors(c))),
        "found OrderedDict as state_dict, expected a plain dictionary",
    ),
    "another number": (lambda c: tensors(c)["layer.bias"].fill_(6), "holds another model than the derived one"),
    "plus zero": (lambda c: tensors(c)["layer.bias"][:1].fill_(0.0), "holds another model than the derived one"),
    "a parameter": (
        lambda c: tensors(c).update({"layer.bias": torch.nn.Parameter(tensors(c)["layer.bias"])}),
        "is no model: found a call of",
    ),
    "a sparse tensor": (lambda c: tensors(c).update({"layer.bias": torch.ones(3).to_sparse()}), "is no model"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_differs_from_the_proven_model_is_refused_by_name(change: str) -> None:
    changed, (how, message) = content(), CHANGES[change]
    how(changed)
    with pytest.raises(ProofError, match=f"^model-3.pt.*{message}"):
        check(changed)


def test_notes_that_torch_does_not_show_are_refused() -> None:
    """A dictionary of hooks may carry anything in its attributes."""
    members = members_of(saved(content()))
    hooks = b"ccollections\nOrderedDict\n"
    at = members["archive/data.pkl"].index(b")R", members["archive/data.pkl"].index(hooks)) + 2
    note = b"}X\x09\x00\x00\x00_metadataX\x04\x00\x00\x00moresb"
    noted = members["archive/data.pkl"][:at] + note + members["archive/data.pkl"][at:]
    with pytest.raises(ProofError, match="found notes beside its dictionaries"):
        check(zipped(members | {"archive/data.pkl": noted}))


def test_a_key_that_is_said_twice_is_refused() -> None:
    members = members_of(saved(content()))
    again = members["archive/data.pkl"].removesuffix(b".") + b"X\x05\x00\x00\x00roundK\x03s."
    with pytest.raises(ProofError, match="found a key twice"):
        check(zipped(members | {"archive/data.pkl": again}))


def test_tensors_that_share_their_numbers_are_refused() -> None:
    proven = replace(PROVEN, tensors=[("a", [3]), ("b", [3])], values=np.ones(6, np.float32))
    shared = torch.ones(3)
    raw = saved({**proven.about, "state_dict": {"a": shared, "b": shared}})
    with pytest.raises(ProofError, match="found tensors that share their numbers"):
        check_model_file(raw, proven, "model-3.pt")


def bombs() -> dict[str, bytes]:
    """Small files that ask for gigabytes."""
    honest = saved(content())
    numbers = {"0": b"\0" * 24}
    wide = {**PROVEN.about, "state_dict": {"layer.weight": Raw((1 << 28, 6), (0, 1)), "layer.bias": Raw((3,), (1,))}}
    large = {**PROVEN.about, "state_dict": {"layer.weight": Raw((1 << 31,), (1,)), "layer.bias": Raw((3,), (1,))}}
    deflated = members_of(honest) | {"archive/data/0": b"\0" * (1 << 24)}
    return {
        "strides of 0": described(wide, numbers, 6),
        "a storage that is not there": described(large, numbers, 1 << 31),
        "a bytearray": with_pickle(honest, calling("builtins bytearray", b"\x8a\x05\x00\x00\x00\x00\x02\x85")),
        "a tensor of no storage": with_pickle(honest, calling("torch FloatTensor", b"J\x00\x00\x00\x40\x85")),
        "a compressed member": zipped(deflated, zipfile.ZIP_DEFLATED),
        "no zip": b"\x80\x02" + b"}" * 3,
    }


@pytest.mark.parametrize("bomb", bombs())
def test_a_small_file_that_asks_for_gigabytes_is_refused_before_torch_sees_it(
    bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_torch(*arguments: object, **more: object) -> None:
        raise AssertionError("torch read it")

    monkeypatch.setattr(torch, "load", no_torch)
    with pytest.raises(ProofError, match=r"^model-3\.pt is no model: "):
        check(bombs()[bomb])


VERIFY = (
    "import sys; from pathlib import Path; from bfl.auditing.portable_proof import verify_proof;"
    "verify_proof(Path(sys.argv[1]))"
)


def test_a_bomb_in_a_proof_folder_is_refused_with_little_memory(tmp_path: Path) -> None:
    """In a process that may have 4 GiB of addresses, of which torch takes most."""
    proof = proof_in(tmp_path / "proof")
    (proof / MODEL).write_bytes(bombs()["strides of 0"])
    rehash(proof)
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, str(proof)],
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30)),
    )
    assert f"ProofError: {MODEL} is no model: found a tensor of shape" in done.stderr


def test_the_same_values_cut_up_under_other_names_do_not_verify(tmp_path: Path) -> None:
    """They did once, and the network with them was another one."""
    proof = proof_in(tmp_path / "proof")
    verify_proof(proof)
    found = torch.load(proof / MODEL, weights_only=True)
    flat = torch.cat([tensor.flatten() for tensor in found["state_dict"].values()])
    cut = {"conv.weight": flat[:100].clone(), "rest": flat[100:].clone()}
    for forged in (found | {"state_dict": cut}, found | {"round": ROUND + 1}, found | {"block": "0x" + "00" * 32}):
        torch.save(forged, proof / MODEL)
        rehash(proof)
        with pytest.raises(ProofError, match=rf"^model-{ROUND}\.pt: found "):
            verify_proof(proof)


def test_a_model_file_may_not_be_larger_than_the_model_needs(tmp_path: Path) -> None:
    proof = proof_in(tmp_path / "proof")
    with (proof / MODEL).open("ab") as file:
        file.truncate((proof / MODEL).stat().st_size + (1 << 20))
    rehash(proof)
    with pytest.raises(ProofError, match=rf"^model-{ROUND}\.pt: found [0-9,]+ bytes, expected at most"):
        verify_proof(proof)
