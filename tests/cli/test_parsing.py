from __future__ import annotations

import json
import math

import pytest

from sparring import FGM, L2, PGD, Delayed, Embeddings, Every, FreeLB, InputError, Linf, Output, Weight
from sparring.cli.choice import Choice
from sparring.cli.evaluate import Options as EvaluateOptions
from sparring.cli.parsing import parse
from sparring.cli.predict import Options as PredictOptions
from sparring.cli.train import Options


def parsed(line, kind=Options):
    return parse(kind, line.split(), command="train")


def built(line):
    return parsed(line).method.build(seed=3)


def test_nothing_given_is_the_constructors_defaults():
    options = parsed("")
    assert options == Options(method=options.method)
    method = options.method.build(seed=0)
    assert method.describe() == FreeLB(site=Embeddings(), ball=L2()).describe()


def test_flags_have_hyphens_or_underscores_and_values_follow_or_are_joined():
    options = parsed("--batch-size 4 --max_length=7 --bf16 --learning-rate 1e-4 --train-size 9 --select best")
    assert (options.batch_size, options.max_length, options.bf16) == (4, 7, True)
    assert (options.learning_rate, options.train_size, options.select) == (1e-4, 9, "best")
    assert parsed("--bf16 false").bf16 is False
    assert parsed("--epochs 1 --epochs 2").epochs == 2
    assert parsed("--model 12 --data null").model == "12"
    assert parsed("--data null").data is None


def test_lists_take_several_values_and_keep_text_as_it_is():
    assert parsed("--radii 0 0.1 1e-2", EvaluateOptions).radii == [0.0, 0.1, 0.01]
    assert parsed("--model runs/a runs/b", EvaluateOptions).model == ["runs/a", "runs/b"]
    texts = ['no "[quotes], please', "12", "true: {x}"]
    found = parse(PredictOptions, ["--text", *texts], command="predict")
    assert found.text == texts


def test_a_methods_arguments_are_flags():
    method = built(
        "--method pgd --method.steps 2 --method.step-size 0.25 --method.dropout fresh --method.unit 1"
    )
    assert isinstance(method, PGD)
    assert (method.steps, method.step_size, method.dropout, method.unit, method.seed) == (
        2,
        0.25,
        "fresh",
        1.0,
        3,
    )
    fgm = built("--method fgm --method.mean")
    assert isinstance(fgm, FGM)
    assert fgm.mean


def test_a_ball_is_the_methods_own_but_for_what_is_given():
    assert built("--method pgd").ball == L2(0.2)
    assert built("--method fgsm").ball == Linf()
    assert built("--method pgd --method.ball.kind linf --method.ball.over token").ball == Linf(
        0.2, over="token"
    )
    assert built("--method pgd --method.ball.radius inf").ball == L2(math.inf)


def test_a_site_is_chosen_by_kind():
    assert built("").site == Embeddings()
    assert built("--method.site.call 1").site == Embeddings(call=1)
    assert built("--method.site.kind output --method.site.module bert.encoder").site == Output(
        module="bert.encoder"
    )
    assert built("--method.site.kind weight").site == Weight()
    assert built("--method.site.kind weight --method.site.name a.weight").site == Weight("a.weight")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--method.site.kind output", "--method.site.kind output needs --method.site.module"),
        ("--method.site.module x", "--method.site.module names the module of --method.site.kind output"),
        ("--method.site.name x", "--method.site.name names the parameter of --method.site.kind weight"),
        ("--method.steps -1", "steps is -1, but must be 1 or more"),
        ("--method.ball.radius -1", "radius is -1.0, but must be 0 or more"),
        ("--method.unit 0", "unit is 0.0, but must be more than 0"),
    ],
)
def test_what_a_method_refuses_is_refused(line, message):
    with pytest.raises(InputError, match=message):
        built(line)


def test_wrappers_delay_and_thin():
    method = Choice("fgm").build(seed=0, start_step=5, every=2)
    assert isinstance(method, Delayed)
    assert method.start_step == 5
    assert isinstance(method.method, Every)
    assert method.method.every == 2
    assert isinstance(method.method.method, FGM)


@pytest.mark.parametrize("text", ["#1 String", "~", "a: b", "12", "true", "'a'", " a "])
def test_text_stays_as_it_is_in_a_flag_and_in_a_file(text, config):
    assert parse(Options, ["--text-column", text], command="train").text_column == text
    assert parsed(config(f"text_column: {json.dumps(text)}")).text_column == text


@pytest.fixture
def config(tmp_path):
    def write(text):
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        return "--config run.yaml"

    return write


# -- files ---------------------------------------------------------------------------------------------------


def test_flags_win_over_the_file_wherever_they_stand(config):
    flag = config("epochs: 7\nlearning-rate: 1e-3\nmax_length: 9\nbf16: true\ndata: x.csv\n")
    for line in (f"{flag} --epochs 1", f"--epochs 1 {flag}"):
        options = parsed(line)
        assert (options.epochs, options.learning_rate, options.max_length) == (1, 1e-3, 9)
        assert (options.bf16, options.data) == (True, "x.csv")


def test_a_file_names_the_method_with_or_without_arguments(config):
    assert parsed(config("method: fgm\n")).method.name == "fgm"
    flag = config("method:\n  name: pgd\n  step-size: 0.3\n  ball: {radius: .inf, kind: linf}\n")
    method = parsed(f"{flag} --method.steps 5").method.build(seed=0)
    assert (method.step_size, method.steps, method.ball) == (0.3, 5, Linf())
    assert parsed(config("method: {steps: 9}\n")).method == parsed("--method.steps 9").method


def test_another_methods_arguments_in_the_file_do_not_count(config):
    flag = config("epochs: 7\nmethod: {name: pgd, steps: 9}\n")
    options = parsed(f"{flag} --method freelb")
    assert options.epochs == 7
    assert options.method == parsed("--method freelb").method
    assert parsed(f"{flag} --method pgd").method == parsed("--method pgd --method.steps 9").method


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_sise: 4", "run.yaml: unknown key 'batch_sise': did you mean 'batch_size'?"),
        ("method: {stps: 4}", "run.yaml: unknown key 'method.stps': did you mean 'method.steps'?"),
        ("method: {ball: l2}", "run.yaml: unknown key 'method.ball': did you mean 'method.ball.kind'?"),
        ("epochs: {a: 1}", "run.yaml: unknown key 'epochs.a': did you mean 'epochs'?"),
        ("epochs: many", "run.yaml: epochs is 'many', but must be a whole number"),
        ("learning_rate: [1]", "run.yaml: learning_rate is '[1]', but must be a number"),
        ("select: worst", "run.yaml: select is 'worst', but must be one of last, best"),
        ("method: fgn", "unknown method 'fgn': did you mean 'fgm'? `sparring methods` lists them"),
        ("a: [1\nb", "run.yaml, line 2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("just text", "run.yaml: not a YAML file of `key: value` lines"),
        ("", "run.yaml: not a YAML file of `key: value` lines"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text, message, config, refused):
    assert refused(f"train {config(text)}") == message


def test_a_file_that_is_not_there_or_no_text_is_refused(refused, tmp_path):
    assert refused("train --config no.yaml") == "no.yaml: no such configuration file"
    (tmp_path / "b.yaml").write_bytes(b"a: \xff\xfe")
    assert refused("train --config b.yaml") == "b.yaml: not a YAML file in UTF-8"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train --epoch 3", "unknown flag --epoch: did you mean --epochs?"),
        ("train --batchsize 3", "unknown flag --batchsize: did you mean --batch-size?"),
        ("train --confg x", "unknown flag --confg: did you mean --config?"),
        ("train --methd fgm", "unknown flag --methd: did you mean --method?"),
        (
            "train --method.stp 3",
            "unknown flag --method.stp of --method freelb: did you mean --method.steps?",
        ),
        ("train --method fgn", "unknown method 'fgn': did you mean 'fgm'? `sparring methods` lists them"),
        ("evaluate --radius 1", "unknown flag --radius: did you mean --radii?"),
        ("predict --txt 1", "unknown flag --txt: did you mean --text?"),
        ("train --epochs x", "--epochs is 'x', but must be a whole number"),
        ("train --epochs 1.5", "--epochs is '1.5', but must be a whole number"),
        ("train --learning-rate x", "--learning-rate is 'x', but must be a number"),
        ("train --bf16 maybe", "--bf16 is 'maybe', but must be true or false"),
        ("train --select worst", "--select is 'worst', but must be one of last, best"),
        ("train --method.unit x", "--method.unit is 'x', but must be a number"),
        ("evaluate --radii 0 x", "--radii is 'x', but must be a number"),
        (
            "train reviews.csv",
            "unexpected 'reviews.csv': every argument has a flag, as in --data reviews.csv",
        ),
        ("train --data a b", "unexpected 'b' after --data a: it takes one value"),
        ("train --data", "--data needs a value"),
        ("train --config", "--config needs a value"),
        ("train --method", "--method needs a value"),
    ],
)
def test_a_wrong_flag_is_refused_by_name(line, message, refused):
    assert refused(line) == message


def test_help_shows_the_arguments_of_the_method_asked_for(sparring):
    freelb, pgd = sparring("train --help").out, sparring("train --method pgd -h").out
    assert "--method.start X" in freelb
    assert "--method freelb" in freelb
    assert "the norm of an ascent step, in units (0.05)" in " ".join(freelb.split())
    assert "--method.ball.radius X" in pgd
    assert "(0.2)" in pgd
    assert "--config FILE" in pgd
