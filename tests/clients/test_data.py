"""Samples and data sets: scaling, choosing, checking, and the door for your own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.data import Dataset, Samples, check_dataset, load_dataset
from clients.errors import DataError
from clients.plugins import permit


def two_images() -> Samples:
    """Two images of 2 channels, 1 x 2 pixels."""
    images = torch.tensor([[[[0, 255]], [[51, 102]]], [[[255, 0]], [[204, 153]]]], dtype=torch.uint8)
    return Samples(images, torch.tensor([0, 1]), mean=(0.5, 0.2), std=(0.25, 0.1))


def small_dataset() -> Dataset:
    return Dataset("small", two_images(), two_images(), classes=2, source="a test")


def test_bytes_are_scaled_to_the_unit_interval_then_by_mean_and_std_of_their_channel() -> None:
    """Channel 0: (255 / 255 - 0.5) / 0.25 = 2; channel 1: (51 / 255 - 0.2) / 0.1 = 0, (102 / 255 - 0.2) / 0.1 = 2."""
    samples = two_images()
    expected = [[[[-2.0, 2.0]], [[0.0, 2.0]]], [[[2.0, -2.0]], [[6.0, 4.0]]]]
    np.testing.assert_allclose(samples.scale(samples.inputs).numpy(), expected, atol=1e-6)


def test_floats_are_scaled_by_mean_and_std_alone() -> None:
    samples = Samples(torch.tensor([[[[0.5, 1.0]]]]), torch.tensor([0]), mean=(0.5,), std=(0.25,))
    assert samples.scale(samples.inputs).tolist() == [[[[0.0, 2.0]]]]


def test_without_a_scale_bytes_land_in_the_unit_interval_and_floats_stay_as_they_are() -> None:
    pixels = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    assert Samples(pixels, torch.tensor([0])).scale(pixels).tolist() == [[[[0.0, 1.0]]]]
    floats = torch.tensor([[[[-3.0, 7.0]]]])
    assert Samples(floats, torch.tensor([0])).scale(floats).tolist() == [[[[-3.0, 7.0]]]]


def test_scaling_does_not_change_its_input(subtests: pytest.Subtests) -> None:
    cases: list[torch.dtype] = [torch.uint8, torch.float32]
    for dtype in cases:
        with subtests.test(dtype=dtype):
            images = torch.arange(8).reshape(1, 2, 2, 2).to(dtype)
            samples = Samples(images, torch.tensor([0]), mean=(0.5, 0.4), std=(0.25, 0.2))
            first, second = samples.scale(images), samples.scale(images)
            assert torch.equal(images, torch.arange(8).reshape(1, 2, 2, 2).to(dtype))
            assert torch.equal(first, second)
            assert first.data_ptr() != images.data_ptr()


@given(pixels=st.lists(st.integers(0, 255), min_size=1, max_size=20), mean=st.floats(0, 1), std=st.floats(0.1, 2))
@settings(max_examples=50, deadline=None)
def test_scaling_agrees_with_numpy_in_double_precision(pixels: list[int], mean: float, std: float) -> None:
    images = torch.tensor(pixels, dtype=torch.uint8).reshape(-1, 1, 1, 1)
    found = Samples(images, torch.zeros(len(pixels), dtype=torch.int64), (mean,), (std,)).scale(images)
    expected = (np.array(pixels, np.float64) / 255 - mean) / std
    np.testing.assert_allclose(found.numpy().ravel(), expected, rtol=1e-5, atol=1e-5)


def test_images_of_many_nodes_side_by_side_are_scaled_by_channel_too() -> None:
    samples = two_images()
    side_by_side = torch.stack([samples.inputs, samples.inputs.flip(0)], dim=1)  # (B, nodes, C, H, W)
    scaled = samples.scale(side_by_side)
    assert torch.equal(scaled[:, 0], samples.scale(samples.inputs))
    assert torch.equal(scaled[:, 1], samples.scale(samples.inputs.flip(0)))


def test_images_with_their_channels_last_are_scaled_by_channel_too() -> None:
    samples = two_images()
    channels_last = samples.inputs.permute(0, 2, 3, 1)  # (B, H, W, C)
    scaled = samples.scale(channels_last, channels_last=True)
    assert torch.equal(scaled.permute(0, 3, 1, 2), samples.scale(samples.inputs))
    nodes = torch.stack([channels_last, channels_last.flip(0)], dim=3)  # (B, H, W, nodes, C)
    assert torch.equal(samples.scale(nodes, channels_last=True)[:, :, :, 0], scaled)
    assert torch.equal(samples.scale(nodes, channels_last=True)[:, :, :, 1], scaled.flip(0))


def test_one_mean_and_std_are_those_of_every_channel() -> None:
    images = two_images().inputs
    one = Samples(images, torch.tensor([0, 1]), mean=(0.5,), std=(0.25,))
    each = Samples(images, torch.tensor([0, 1]), mean=(0.5, 0.5), std=(0.25, 0.25))
    assert torch.equal(one.scale(images), each.scale(images))


def test_selected_samples_keep_their_labels_order_and_scale() -> None:
    samples = two_images()
    chosen = samples.select(torch.tensor([1, 0, 1]))
    assert chosen.labels.tolist() == [1, 0, 1]
    assert torch.equal(chosen.inputs, samples.inputs[[1, 0, 1]])
    assert (chosen.mean, chosen.std) == (samples.mean, samples.std)
    assert len(chosen) == 3


def test_selected_samples_are_copies() -> None:
    samples = two_images()
    samples.select(torch.tensor([0])).inputs.fill_(9)
    assert torch.equal(samples.inputs, two_images().inputs)


def test_a_sample_has_the_bytes_of_its_image(subtests: pytest.Subtests) -> None:
    cases: list[tuple[torch.dtype, int]] = [(torch.uint8, 3 * 4 * 5), (torch.float32, 3 * 4 * 5 * 4)]
    for dtype, size in cases:
        with subtests.test(dtype=dtype, size=size):
            assert Samples(torch.zeros(2, 3, 4, 5, dtype=dtype), torch.zeros(2)).sample_bytes == size


def test_a_sound_data_set_passes() -> None:
    check_dataset(small_dataset())
    assert small_dataset().sample_shape == (2, 1, 2)


def refusal(dataset: Dataset) -> str:
    with pytest.raises(DataError) as caught:
        check_dataset(dataset)
    return str(caught.value)


def test_images_without_a_channel_are_refused() -> None:
    flat = replace(two_images(), inputs=torch.zeros(2, 28, 28, dtype=torch.uint8))
    assert refusal(replace(small_dataset(), train=flat)) == (
        "dataset small, train: found images of shape (2, 28, 28) and torch.uint8, "
        "expected (samples, channels, height, width) in uint8 or float32"
    )


def test_images_of_another_type_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[torch.dtype] = [torch.float64, torch.int64, torch.float16]
    for dtype in cases:
        with subtests.test(dtype=dtype):
            other = replace(two_images(), inputs=two_images().inputs.to(dtype))
            message = refusal(replace(small_dataset(), test=other))
            assert message.startswith(f"dataset small, test: found images of shape (2, 2, 1, 2) and {dtype}, expected")


def test_labels_that_do_not_fit_the_images_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[torch.Tensor, str]] = [
        (torch.tensor([0, 1, 1]), "3 labels of torch.int64 for 2 images"),
        (torch.tensor([0, 1], dtype=torch.int32), "2 labels of torch.int32 for 2 images"),
        (torch.tensor([0.0, 1.0]), "2 labels of torch.float32 for 2 images"),
    ]
    for labels, found in cases:
        with subtests.test(labels=labels, found=found):
            assert refusal(replace(small_dataset(), train=replace(two_images(), labels=labels))) == (
                f"dataset small, train: found {found}, expected one int64 label per image and at least one image"
            )


def test_a_data_set_without_images_is_refused() -> None:
    nothing = replace(two_images(), inputs=torch.zeros(0, 2, 1, 2), labels=torch.zeros(0, dtype=torch.int64))
    assert "found 0 labels of torch.int64 for 0 images" in refusal(replace(small_dataset(), test=nothing))


def test_a_label_that_is_no_class_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[int], str]] = [([0, 2], "0 to 2"), ([-1, 1], "-1 to 1")]
    for labels, span in cases:
        with subtests.test(labels=labels, span=span):
            wrong = replace(two_images(), labels=torch.tensor(labels))
            assert refusal(replace(small_dataset(), test=wrong)) == (
                f"dataset small, test: found labels {span}, expected 0 to 1"
            )


def test_a_scale_that_does_not_fit_the_channels_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], tuple[float, ...]]] = [
        ((0.5, 0.5, 0.5), (0.25, 0.25)),
        ((0.5, 0.5), (0.25, 0.25, 0.25)),
        ((), (0.25,)),
        ((0.5,), ()),
        ((0.5,), (0.0,)),
        ((0.5, 0.5), (0.25, -0.25)),
        ((0.5,), (float("nan"),)),
    ]
    for mean, std in cases:
        with subtests.test(mean=mean, std=std):
            assert refusal(replace(small_dataset(), train=replace(two_images(), mean=mean, std=std))) == (
                f"dataset small, train: found mean {mean} and std {std}, expected 1 or 2 numbers each, std above 0"
            )


def test_a_scale_that_is_not_finite_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], tuple[float, ...]]] = [
        ((float("nan"),), (1.0,)),
        ((0.0, float("inf")), (1.0,)),
        ((0.0,), (float("inf"),)),
        ((0.0,), (1.0, float("inf"))),
    ]
    for mean, std in cases:
        with subtests.test(mean=mean, std=std):
            assert refusal(replace(small_dataset(), test=replace(two_images(), mean=mean, std=std))).startswith(
                f"dataset small, test: found mean {mean} and std {std}, expected "
            )


def test_images_that_are_not_finite_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[float] = [float("nan"), float("inf"), float("-inf")]
    for value in cases:
        with subtests.test(value=value):
            images = torch.zeros(2, 2, 1, 2)
            images[1, 0, 0, 1] = value
            assert refusal(replace(small_dataset(), test=replace(two_images(), inputs=images))) == (
                "dataset small, test: found NaN or infinity among the images, expected finite numbers"
            )


def test_train_and_test_images_of_different_shapes_are_refused() -> None:
    wider = replace(two_images(), inputs=torch.zeros(2, 2, 1, 3))
    assert refusal(replace(small_dataset(), test=wider)) == (
        "dataset small: train images are (2, 1, 2), test images (2, 1, 3); expected the same"
    )


def test_the_synthetic_data_set_has_ten_classes_equally_often(synthetic: Dataset) -> None:
    assert synthetic.train.inputs.shape == (6_000, 1, 28, 28)
    assert synthetic.test.inputs.shape == (1_000, 1, 28, 28)
    assert torch.bincount(synthetic.train.labels).tolist() == [600] * 10
    assert torch.bincount(synthetic.test.labels).tolist() == [100] * 10
    assert synthetic.train.inputs.dtype == torch.uint8


def test_the_synthetic_data_set_follows_from_its_seed_alone(synthetic: Dataset) -> None:
    again, other = load_dataset("synthetic", "", 0), load_dataset("synthetic", "", 1)
    assert torch.equal(again.train.inputs, synthetic.train.inputs)
    assert torch.equal(again.test.labels, synthetic.test.labels)
    assert not torch.equal(other.train.inputs, synthetic.train.inputs)
    assert (again.source, other.source) == ("made from seed 0", "made from seed 1")


def test_synthetic_images_are_classified_by_their_nearest_class_mean(synthetic: Dataset) -> None:
    """What makes it a learning task: classes differ. The means come from the train images, the test is unseen."""
    train, test = synthetic.train.inputs.flatten(1).float(), synthetic.test.inputs.flatten(1).float()
    means = torch.stack([train[synthetic.train.labels == label].mean(0) for label in range(10)])
    nearest = torch.cdist(test, means).argmin(1)
    assert float((nearest == synthetic.test.labels).float().mean()) > 0.9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, for modules of the user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLUGIN = """
import torch
from clients.data import Dataset, Samples

def tiny(folder, seed):
    samples = Samples(torch.full((3, 1, 2, 2), float(seed)), torch.tensor([0, 1, 1]))
    return Dataset("tiny", samples, samples, 2, f"{type(folder).__name__} {folder}")

def a_list(folder, seed):
    return [1, 2, 3]

def wrong_labels(folder, seed):
    samples = Samples(torch.zeros(1, 1, 2, 2), torch.tensor([5]))
    return Dataset("wrong", samples, samples, 2, "nowhere")
"""


def load_own(name: str, folder: str, seed: int) -> Dataset:
    permit({"dataset": name})
    return load_dataset(name, folder, seed)


def test_a_data_set_of_your_own_gets_the_folder_and_the_seed(folder: Path) -> None:
    (folder / "own_data_a.py").write_text(PLUGIN)
    dataset = load_own("own_data_a:tiny", "~/data", seed=7)
    assert set(dataset.train.inputs.flatten().tolist()) == {7.0}
    assert dataset.source == f"PosixPath {Path('~/data').expanduser()}"
    assert load_own("own_data_a:tiny", "", seed=7).source == "NoneType None"


def test_a_data_set_of_your_own_that_returns_something_else_is_refused(folder: Path) -> None:
    (folder / "own_data_b.py").write_text(PLUGIN)
    with pytest.raises(DataError) as caught:
        load_own("own_data_b:a_list", "", seed=0)
    assert str(caught.value) == "dataset own_data_b:a_list: found list, expected a clients.data.Dataset"


def test_a_data_set_of_your_own_is_checked_like_ours(folder: Path) -> None:
    (folder / "own_data_c.py").write_text(PLUGIN)
    with pytest.raises(DataError, match="dataset wrong, train: found labels 5 to 5, expected 0 to 1"):
        load_own("own_data_c:wrong_labels", "", seed=0)


def test_a_wrong_function_of_your_module_names_the_nearest(folder: Path) -> None:
    (folder / "own_data_d.py").write_text(PLUGIN)
    with pytest.raises(DataError) as caught:
        load_own("own_data_d:tinny", "", seed=0)
    assert str(caught.value) == 'dataset: own_data_d has no function "tinny" (did you mean "tiny"?)'


def test_a_module_that_is_not_here_is_refused_with_its_name(folder: Path) -> None:
    with pytest.raises(DataError, match='dataset "own_data_e:tiny": cannot import own_data_e'):
        load_own("own_data_e:tiny", "", seed=0)


def test_an_unknown_data_set_names_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(DataError) as caught:
        load_dataset("fashion_mnist", "", seed=0)
    assert str(caught.value) == (
        'dataset: found "fashion_mnist", expected fashion-mnist, svhn, synthetic or your own as module:function '
        '(did you mean "fashion-mnist"?)'
    )
