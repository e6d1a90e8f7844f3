"""Trainers of other libraries: their steps are found by the optimizer's hook, without any edit."""

from __future__ import annotations

import importlib.util

import pytest

from tests.notebook.conftest import Kernel
from tests.notebook.test_cells import FACTS


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@needs("transformers", "accelerate")
def test_hugging_face_trainer(torch_kernel: Kernel, tmp_path: object) -> None:
    torch_kernel.must(
        f"""
        import os
        os.environ["WANDB_DISABLED"] = os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import Trainer, TrainingArguments
        class Tiny(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 1)
            def forward(self, x, labels=None):
                out = self.layer(x)
                return dict(loss=(out - labels).pow(2).mean(), logits=out)
        data = [dict(x=torch.ones(8), labels=torch.ones(1)) for _ in range(64)]
        arguments = TrainingArguments(
            output_dir={str(tmp_path)!r}, max_steps=8, per_device_train_batch_size=4, report_to=[],
            disable_tqdm=True, save_strategy="no", use_cpu=True, logging_strategy="no",
        )
        """
    )
    reply = torch_kernel.run(
        "%%profile p --quiet --steps 3:6\nTrainer(Tiny(), arguments, train_dataset=data).train()"
    )
    assert reply.ok, reply
    facts = torch_kernel.value(FACTS)
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], "optimizer.step()", 8)


@needs("lightning")
def test_lightning(torch_kernel: Kernel, tmp_path: object) -> None:
    torch_kernel.run(
        f"""
        import lightning, logging, warnings
        warnings.simplefilter("ignore")
        class Tiny(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 1)
            def training_step(self, batch, index):
                return self.layer(batch).sum()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)
        trainer = lightning.Trainer(
            max_steps=8, accelerator="cpu", logger=False, enable_checkpointing=False, barebones=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir={str(tmp_path)!r},
        )
        """
    )
    reply = torch_kernel.run("%%profile p --quiet --steps 3:6\ntrainer.fit(Tiny(), loader)")
    assert reply.ok, reply
    facts = torch_kernel.value(FACTS)
    assert (facts["steps"], facts["steps_found"], facts["steps_seen"]) == ([3, 4, 5], "optimizer.step()", 8)
