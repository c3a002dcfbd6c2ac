"""Tables as data sets: what is read, and what is refused with its line."""

import time
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from clients.data import Dataset, dataset_of
from clients.errors import DataError
from clients.loaders.splits import class_names
from clients.parameters import DataParams
from clients.partition import shares_of

HEADER = "age,height,label,who\n"
ROWS = [f"{20 + n},{1.5 + n / 100:g},{'yes' if n % 3 else 'no'},p{n // 4}" for n in range(20)]


def load(path: Path, **settings: object) -> Dataset:
    return dataset_of(DataParams(dataset="csv", data_dir=str(path), **settings))  # type: ignore[arg-type]


def table(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return table(tmp_path, HEADER + "\n".join(ROWS) + "\n")


def test_numbers_become_standardised_features_and_words_classes(path: Path) -> None:
    dataset = load(path, group_column="who")
    assert dataset.sample_shape == (2,)
    assert (dataset.classes, len(dataset.train), len(dataset.test)) == (2, 17, 3)  # 13 yes: 2, 7 no: 1
    assert dataset.source == f"{path}, label column label, 2 features, classes no, yes"
    inputs = dataset.train.inputs.double()
    assert inputs.mean(0).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert inputs.std(0, correction=0).tolist() == pytest.approx([1, 1], abs=1e-6)


def test_every_line_is_in_one_part_with_its_own_label(path: Path) -> None:
    dataset = load(path, drop_columns="who,height")
    both = torch.cat([dataset.train.inputs, dataset.test.inputs]).ravel().double()
    labels = torch.cat([dataset.train.labels, dataset.test.labels])
    assert len(set(both.tolist())) == 20
    order = both.argsort()
    assert labels[order].tolist() == [1 if n % 3 else 0 for n in range(20)]


def test_the_same_file_gives_the_same_bytes_and_the_seed_draws_the_test(path: Path) -> None:
    one, same, other = (load(path, drop_columns="who", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert not torch.equal(one.test.inputs, other.test.inputs)


def test_lines_of_one_person_stay_together(path: Path) -> None:
    dataset = load(path, group_column="who")
    assert dataset.groups is not None
    shares = shares_of(dataset, DataParams(devices=2, partition="by-group"))
    held = [set(dataset.groups[share].tolist()) for share in shares]
    assert not held[0] & held[1]
    assert len(held[0] | held[1]) == 5


def test_a_folder_has_its_own_test_and_its_scale_is_that_of_train(tmp_path: Path) -> None:
    table(tmp_path, "a,label\n0,x\n2,y\n", "train.csv")
    table(tmp_path, "a,label\n3,y\n", "test.csv")
    dataset = load(tmp_path)
    assert dataset.train.inputs.ravel().tolist() == [-1.0, 1.0]
    assert (dataset.test.inputs.ravel().tolist(), dataset.test.labels.tolist()) == ([2.0], [1])


def test_without_a_header_columns_are_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, "\n".join(f"{n},{n % 2},{n * n}" for n in range(10)))
    dataset = load(path, label_column="2")
    assert dataset.sample_shape == (2,)
    assert dataset.classes == 2


def test_whole_numbers_are_classes_by_size_and_named_ones_in_their_order(tmp_path: Path) -> None:
    path = table(tmp_path, "a,label\n" + "\n".join(f"{n},{(9, 10)[n % 2]}" for n in range(10)))
    assert load(path).source.endswith("classes 9, 10")
    dataset = load(path, class_names="10,9,8")
    assert dataset.classes == 3
    assert torch.bincount(dataset.train.labels, minlength=3).tolist() == [4, 4, 0]


def test_a_column_that_never_changes_is_zero(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b,label\n" + "\n".join(f"0.1,{n},{n % 2}" for n in range(10)))
    assert load(path).train.inputs[:, 0].tolist() == pytest.approx([0.0] * 8, abs=1e-12)


GOOD = "a,b,label\n1,2,x\n3,4,y\n"
MISSING = "a missing value, expected a number; fill it in or remove the line (pandas: fillna, dropna), or leave the"


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        (GOOD + "5,,x\n", {}, f", line 4, column 'b': found '', {MISSING} column out: --drop-columns b"),
        (GOOD + "5,NA,x\n", {}, f", line 4, column 'b': found 'NA', {MISSING} column out: --drop-columns b"),
        (GOOD + "inf,6,x\n", {}, ", line 4, column 'a': found 'inf', expected a finite number; write one"),
        (GOOD + "1_0,6,x\n", {}, ", line 4, column 'a': found '1_0', expected a number"),
        (GOOD + "red,6,x\n", {}, ", line 4, column 'a': found 'red', expected a number; make a column of numbers for "
         "each category (pandas.get_dummies does), or leave it out: --drop-columns a"),
        (GOOD + "5,6\n", {}, ", line 4: found 2 columns, expected 3"),
        (GOOD + "5,6,\n", {}, ", line 4, column 'label': found nothing, expected a label"),
        (GOOD + '5,6,"x\n', {}, ": is no CSV in UTF-8"),
        (GOOD, {}, ": found one sample of class 'x', expected at least two"),
        ("", {}, ": found no lines"),
        ("a,b,label\n", {}, ": found a header and no lines"),
        ("a;b;label\n1;2;x\n", {}, ": found 1 columns and no feature beside the label, expected some; is it separated"),
        ("a,a,label\n", {}, ": found two columns called 'a'"),
        (GOOD, {"label_column": "lable"}, ': --label-column "lable": found columns a, b, label (did you mean "la'),
        (GOOD, {"drop_columns": "c"}, ': --drop-columns "c": found columns a, b, label'),
        (GOOD, {"class_names": "x,z"}, ": found labels y, expected those of --class-names x,z"),
        ("a,label\n1,x\n2,x\n", {}, ": found 1 different labels, expected 2 to 1,000 classes"),
        ("a,price\n" + "\n".join(f"1,{n}.5" for n in range(1001)), {}, ": found 1,001 different labels, expected 2 to"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_numbers_is_refused_with_its_line(
    tmp_path: Path, text: str, settings: dict[str, object], told: str
) -> None:
    path = table(tmp_path, text)
    with pytest.raises(DataError) as caught:
        load(path, **settings)
    assert str(caught.value).startswith(f"{path}{told}")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no --data-dir"):
        dataset_of(DataParams(dataset="csv"))
    with pytest.raises(DataError, match=r"cannot be read .* expected a file, or a folder with train.csv"):
        load(tmp_path)
    (tmp_path / "latin.csv").write_bytes(b"a,label\n1,\xe9\n")
    with pytest.raises(DataError, match="is no CSV in UTF-8"):
        load(tmp_path / "latin.csv")


def test_a_header_of_numbers_can_be_said_to_be_one(tmp_path: Path) -> None:
    path = table(tmp_path, "0,1,2\n" + "\n".join(f"{n},{n},{n % 2}" for n in range(10)))
    assert len(load(path, header="yes").train) == 8
    with pytest.raises(DataError, match=r"one sample of class '2'.*is its label misspelt, or the first line a header"):
        load(path)


def test_the_scale_is_that_of_double_precision(path: Path) -> None:
    ages = np.arange(20, 40, dtype=np.float64)
    train = load(path, drop_columns="who,height").train.inputs.ravel().numpy()
    test = load(path, drop_columns="who,height").test.inputs.ravel().numpy()
    scaled = np.sort(np.concatenate([train, test]))
    assert np.diff(scaled) == pytest.approx(np.full(19, scaled[1] - scaled[0]), rel=1e-5)
    assert scaled[-1] - scaled[0] == pytest.approx((ages[-1] - ages[0]) / np.std(ages), rel=0.2)


def test_classes_of_the_same_number_have_an_order_of_their_own() -> None:
    """Their set has another order in every process."""
    for names in permutations(["1", "01", "001", "2", "9" * 5000, "b"]):
        assert class_names(names, DataParams(), "here") == ["001", "01", "1", "2", "9" * 5000, "b"]


@pytest.mark.parametrize("large", ["1e308", "-1e200"])
def test_numbers_that_cannot_be_standardised_are_refused(tmp_path: Path, large: str) -> None:
    lines = HEADER + "".join(f"{large},1,{'ab'[n % 2]},p\n{n},2,{'ab'[n % 2]},p\n" for n in range(20))
    with pytest.raises(DataError, match="column 'age': found numbers that are too large to be squared"):
        load(table(tmp_path, lines), drop_columns="who")


def test_a_number_to_test_with_may_not_be_infinite_beside_the_others(tmp_path: Path) -> None:
    table(tmp_path, "x,label\n" + "1,a\n2,b\n" * 9, "train.csv")
    table(tmp_path, "x,label\n1e250,a\n2,b\n", "test.csv")
    with pytest.raises(DataError, match=r"found numbers to test with that are 1e[+]30 times as large"):
        load(tmp_path)


@pytest.mark.parametrize("line", ["1," * (1 << 23), '"1\n",' * (1 << 21)])
def test_a_line_is_bounded_before_it_is_read(tmp_path: Path, line: str) -> None:
    with pytest.raises(DataError, match="found a line of more than 8,388,608 characters, expected a table"):
        load(table(tmp_path, HEADER + line + "\n"))


def test_two_columns_of_a_name_are_found_among_many(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(90_000)]
    began = time.process_time()
    with pytest.raises(DataError, match="found two columns called 'c7'"):
        load(table(tmp_path, ",".join([*names, "c7"]) + "\n"))
    assert time.process_time() - began < 10  # every name against every other: a minute
