#!/usr/bin/env python3
"""Writes a reference for `verify`: what transformers computes for one text.

    pip install torch transformers safetensors
    python3 write_reference.py MODEL_DIR REFERENCE.safetensors --text "Once upon a time"

The file holds input_ids, hidden_i_f32 (0 is the embedding, the last one is after the final norm), logits_f32, greedy_f32
and logits_bf16; `verify --help` describes them. Everything runs on the CPU, with eager attention, so that the result does
not depend on a GPU's kernels.
"""
import argparse

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder, dtype):
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    except TypeError:  # transformers before 4.56 calls it torch_dtype
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype, attn_implementation="eager")
    # A checkpoint's own sampling defaults (repetition penalty, stop ids) have no place in a reference.
    model.generation_config = type(model.generation_config)(pad_token_id=0)
    return model.eval()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("reference", metavar="REFERENCE.safetensors")
    parser.add_argument("--text", default="Once upon a time", help="text to read (needs the folder's tokenizer)")
    parser.add_argument("--ids", help="ids to read instead of a text, separated by commas")
    parser.add_argument("--greedy", type=int, default=32, metavar="N", help="greedy ids to append (default 32)")
    parser.add_argument("--no-hidden", action="store_true", help="leave the hidden states out")
    arguments = parser.parse_args()

    if arguments.ids:
        ids = torch.tensor([[int(i) for i in arguments.ids.split(",")]])
    else:
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        ids = tokenizer(arguments.text, return_tensors="pt").input_ids
    tensors = {"input_ids": ids[0]}

    model = load(arguments.model, torch.float32)
    out = model(ids, output_hidden_states=True, use_cache=False)
    tensors["logits_f32"] = out.logits[0].float()
    if not arguments.no_hidden:
        for i, hidden in enumerate(out.hidden_states):
            tensors[f"hidden_{i}_f32"] = hidden[0].float()

    # Greedy decoding written out: generate() would stop at an end token.
    text, cache, greedy = ids, None, []
    for _ in range(arguments.greedy):
        step = model(text, past_key_values=cache, use_cache=True)
        cache = step.past_key_values
        text = step.logits[:, -1:].argmax(-1)
        greedy.append(text.item())
    if greedy:
        tensors["greedy_f32"] = torch.tensor(greedy)
    del model

    tensors["logits_bf16"] = load(arguments.model, torch.bfloat16)(ids, use_cache=False).logits[0].float()
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, arguments.reference)
    print(f"{arguments.reference}: {ids.shape[1]} ids, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
