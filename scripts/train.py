# SPDX-License-Identifier: Apache-2.0
"""Trains a small image classifier on one or many processes, and evaluates each example once.

python scripts/train.py --config=configs/digits.py --config.batches.global_batch_size=128
python -m tfjax_batches.launch --processes 4 -- \
        python scripts/train.py --config=configs/digits.py --config.mesh=data=2,model=2

With --workdir it saves checkpoints, also on SIGTERM. Started again, it continues from the latest
one, on any number of processes and any mesh.
"""

import dataclasses
import functools
import hashlib
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax
import tqdm
from absl import app, flags
from checkpoints import Checkpoints, StopRequest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ml_collections import config_flags
from network import LOSS_MAKERS, LossFunction, Params, init_params, predict

import tfjax_batches as tjb
from tfjax_batches import launch
from tfjax_batches.placing.stats import Stats
from tfjax_batches.planning.mesh_text import parse_mesh_shape

_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
sys.path.insert(0, _ROOT)  # configs import each other

_CONFIG = config_flags.DEFINE_config_file(
    "config",
    os.path.join(_ROOT, "configs", "digits.py"),
    lock_config=False,
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder to save checkpoints to and restore from. None: no checkpoints."
)


def make_mesh(text: str) -> Mesh:
    """Return the mesh of all devices described by a text such as `data=-1,model=2`."""
    shape = parse_mesh_shape(text, len(jax.devices()))
    return Mesh(np.array(jax.devices()).reshape(tuple(shape.values())), tuple(shape))


def make_train_step(
    loss_of: LossFunction, optimizer: optax.GradientTransformation, replicated: NamedSharding
) -> Any:
    """Return the jitted step: (params, state, batch) → (params, state, loss, ids)."""

    @functools.partial(
        jax.jit, donate_argnums=(0, 1), out_shardings=(None, None, replicated, replicated)
    )
    def train_step(params: Params, state: Any, batch: Any) -> tuple[Params, Any, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(params, batch["image"], batch["label"])
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss, batch["_id"]

    return train_step


@jax.jit
def eval_step(params: Params, batch: Any) -> dict[str, jax.Array]:
    """Return the label of each row, and whether it was predicted."""
    predicted = predict(params, batch["image"]).argmax(-1)
    return {"label": batch["label"], "correct": predicted == batch["label"]}


class Progress:
    """Loss and example ids of a run; checkpoints hold them as JSON beside the model."""

    def __init__(self, saved: dict[str, Any] | None = None) -> None:
        saved = saved or {"ids_digest": "", "loss": None}
        self._digest: str = saved["ids_digest"]
        self._loss: Any = saved["loss"]
        self._new_ids: list[jax.Array] = []

    def add_step(self, ids: jax.Array, loss: jax.Array) -> None:
        """Record a step, without waiting for its arrays."""
        self._new_ids.append(ids)
        self._loss = loss

    def to_json(self) -> dict[str, Any]:
        """Return the last loss, and a digest of the ids of all steps so far in order."""
        for ids in self._new_ids:
            chained = self._digest.encode() + np.asarray(ids).tobytes()
            self._digest = hashlib.sha256(chained).hexdigest()[:16]
        self._new_ids.clear()
        return {"ids_digest": self._digest, "loss": float(self._loss)}


class Speed:
    """Examples/s and the share of time spent waiting, over the steps after the first."""

    def __init__(self, batches: tjb.BatchIterator) -> None:
        self._batches = batches
        self._start: tuple[float, Stats] | None = None

    def note_step(self) -> None:
        """Record the end of a step; the first one compiles and does not count."""
        if self._start is None:
            self._start = time.perf_counter(), self._batches.stats

    def report(self) -> None:
        """Print examples/s and the share of waiting."""
        if self._start is None:
            return
        (start, before), after = self._start, self._batches.stats
        seconds = time.perf_counter() - start
        report("examples_per_second", f"{(after.examples - before.examples) / seconds:.0f}")
        report("input_wait_share", f"{(after.wait_seconds - before.wait_seconds) / seconds:.3f}")


def train(
    config: Any, loader: tjb.BatchLoader, mesh: Mesh, params: Params, workdir: str | None = None
) -> Params:
    """Train from the latest checkpoint; print the digest of ids, the last loss and the speed.

    Args:
        config: A `TrainConfig`.
        loader: The training batches.
        mesh: Where `params` are placed.
        params: The initial weights.
        workdir: Absolute path of the checkpoints. None: no checkpoints.

    Returns:
        The trained weights.
    """
    optimizer = optax.adam(config.learning_rate)
    loss_of = LOSS_MAKERS[config.parallel](mesh, config.data_axes)
    train_step = make_train_step(loss_of, optimizer, NamedSharding(mesh, PartitionSpec()))
    checkpoints = Checkpoints(workdir, config.checkpoint_every)
    model = (params, init_optimizer(optimizer, mesh, params))
    progress, batches = Progress(), iter(loader)
    if restored := checkpoints.restore(model):
        model, saved = restored
        progress = Progress(saved)
        batches.set_state(saved["batches"])
        report("restored_at_step", batches.step)
    num_steps = min(config.num_steps or len(loader), loader.num_steps or sys.maxsize)
    stop, speed = StopRequest(), Speed(batches)
    with (
        batches,
        tqdm.tqdm(
            total=num_steps, initial=batches.step, unit="step", disable=jax.process_index() != 0
        ) as bar,
    ):
        while batches.step < num_steps and not stop.agreed(batches.step):
            *model, loss, ids = train_step(*model, next(batches))
            progress.add_step(ids, loss)
            if jax.default_backend() == "cpu":
                # Forced CPU devices share few threads. Steps in flight that wait for each other's
                # collectives can occupy all of them and deadlock.
                loss.block_until_ready()
            speed.note_step()
            bar.update()
            if batches.step % config.checkpoint_every == 0:
                save(checkpoints, batches, tuple(model), progress)
        last = save(checkpoints, batches, tuple(model), progress, now=True)
    checkpoints.close()
    if batches.step < num_steps:
        report("stopped_at_step", batches.step)
        sys.exit(128 + signal.SIGTERM)
    report("train_steps", num_steps)
    report("train_ids_digest", last["ids_digest"])
    report("final_loss", f"{last['loss']:.6f}")
    speed.report()
    return model[0]


def init_optimizer(optimizer: optax.GradientTransformation, mesh: Mesh, params: Params) -> Any:
    """Return the optimizer's state; each part is placed like the weight it belongs to."""
    replicated = NamedSharding(mesh, PartitionSpec())
    state = optimizer.init(params)
    return jax.tree.map(
        lambda x: x if isinstance(x.sharding, NamedSharding) else jax.device_put(x, replicated),
        state,
    )


def save(
    checkpoints: Checkpoints,
    batches: tjb.BatchIterator,
    model: Any,
    progress: Progress,
    now: bool = False,
) -> dict[str, Any]:
    """Save model, progress and the state of the batches; return the progress."""
    known = {**progress.to_json(), "batches": batches.get_state()}
    checkpoints.save(batches.step, model, known, now=now)
    return known


def build_eval_loader(config: Any, mesh: Mesh) -> tjb.BatchLoader:
    """Return the loader that delivers each example of the eval split once."""
    batches = dataclasses.replace(
        config.batches,
        split=config.eval_split,
        preprocess=config.batches.preprocess
        if config.eval_preprocess is None
        else config.eval_preprocess,
        shuffle=tjb.Shuffle.NONE,
        num_epochs=1,
        remainder=tjb.Remainder.PAD,
    )
    return tjb.build(batches, tjb.data_sharding(mesh, config.data_axes))


def evaluate(loader: tjb.BatchLoader, params: Params) -> None:
    """Evaluate each example of the split once; print the accuracy, overall and by class."""
    with iter(loader) as batches:
        parts = [tjb.gather_examples(batch, eval_step(params, batch)) for batch in batches]
    ids = np.concatenate([ids for ids, _ in parts])
    labels, correct = (
        np.concatenate([results[name] for _, results in parts]) for name in ("label", "correct")
    )
    times_seen = np.bincount(ids, minlength=loader.num_examples)
    report("test_examples", loader.num_examples)
    report("test_examples_evaluated_once", int((times_seen == 1).sum()))
    report("test_accuracy", f"{correct.mean():.4f}")
    for label, name in enumerate(loader.label_names.get("label", ())):
        if (of_class := labels == label).any():
            report(f"test_accuracy_of_{name}", f"{correct[of_class].mean():.4f}")


def check_config(config: Any) -> None:
    """Raise UsageError if this program cannot run the config."""
    if config.parallel not in LOSS_MAKERS:
        raise app.UsageError(
            f"--config.parallel must be one of {sorted(LOSS_MAKERS)}; got {config.parallel!r}."
        )
    for name, least in (("num_steps", 0), ("checkpoint_every", 1), ("hidden_units", 1)):
        if getattr(config, name) < least:
            raise app.UsageError(
                f"--config.{name} must be at least {least}; got {getattr(config, name)}."
            )
    if config.num_steps == 0 and config.batches.num_epochs is None:
        raise app.UsageError(
            "Training needs an end: set --config.num_steps or --config.batches.num_epochs."
        )


def report(name: str, value: Any) -> None:
    """Print a line of the run's summary, once for all processes."""
    if jax.process_index() == 0:
        print(f"{name}: {value}", flush=True)


def main(argv: Sequence[str]) -> None:
    """Train and evaluate."""
    if len(argv) > 1:
        raise app.UsageError(f"Arguments must be flags; got {argv[1:]}. Write --name=value.")
    launch.initialize()
    config = _CONFIG.value
    check_config(config)
    config.batches.with_ids = True  # for the digest, and to count evaluated examples
    mesh = make_mesh(config.mesh)
    loader = tjb.build(config.batches, tjb.data_sharding(mesh, config.data_axes))
    eval_loader = build_eval_loader(config, mesh)
    if missing := {"image", "label"} - set(loader.element_spec):
        raise app.UsageError(
            f"Training needs the features image and label; the batches lack {sorted(missing)}. "
            "Set --config.batches.dataset to one that has them, or rename features by "
            '--config.batches.preprocess="rename(...)".'
        )
    if "label" not in loader.label_names:
        raise app.UsageError(
            f"The label must be a ClassLabel; that of {config.batches.dataset!r} is not. "
            "Set --config.batches.dataset to a dataset with class names."
        )
    inputs = math.prod(loader.element_spec["image"].shape[1:])
    classes = len(loader.label_names["label"])
    params = init_params(mesh, inputs, config.hidden_units, classes, config.seed)
    workdir = _WORKDIR.value and os.path.abspath(_WORKDIR.value)
    params = train(config, loader, mesh, params, workdir)
    evaluate(eval_loader, params)


if __name__ == "__main__":
    app.run(main)
