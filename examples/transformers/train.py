"""Train a small BERT with Hugging Face's Trainer to see which of two words a text has more of.

The model and the texts are made on the spot, so nothing is downloaded. Two lines are Slipway's: the
import, and the Trainer's callback.
"""

import argparse
import os

import torch
from transformers import (  # type: ignore[import-not-found]  # see requirements.txt
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainingArguments,
)

from slipway.transformers import SlipwayCallback

_WORDS, _LENGTH = 16, 15


def texts(number: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Return texts of random words, labelled by whether word 1 or word 2 occurs more often."""
    words = torch.randint(
        1, _WORDS, (number, _LENGTH), generator=torch.Generator().manual_seed(seed)
    )
    labels = ((words == 1).sum(1) > (words == 2).sum(1)).long()
    return [{"input_ids": ids, "labels": label} for ids, label in zip(words, labels, strict=True)]


def accuracy(found: EvalPrediction) -> dict[str, float]:
    """Return the share of texts that are classified rightly."""
    return {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--texts", type=int, default=8000)
    args = parser.parse_args()
    outputs = os.environ.get("SLIPWAY_OUTPUT_DIR", "outputs")
    torch.manual_seed(1)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=_WORDS, num_attention_heads=2, hidden_dropout_prob=0.0, **small)
    )
    trainer = Trainer(
        model,
        TrainingArguments(
            output_dir=outputs, num_train_epochs=args.epochs, learning_rate=3e-3,
            per_device_train_batch_size=32, per_device_eval_batch_size=250, report_to=[],
            eval_strategy="epoch", logging_strategy="epoch", save_strategy="no",
            disable_tqdm=True, dataloader_pin_memory=torch.cuda.is_available(),
        ),
        train_dataset=texts(args.texts, seed=1),
        eval_dataset=texts(1000, seed=2),
        compute_metrics=accuracy,
        callbacks=[SlipwayCallback()],
    )  # fmt: skip
    trainer.train()
    trainer.save_model(outputs)
