"""Logits of exported models: JSON `[{"model": FOLDER, "adapter": FOLDER or null, "ids": [..]}]` on standard input, one list of
logits (tokens x vocabulary) for each on standard output. Needs torch, transformers and peft; made with 2.15.0, 5.24.0 and 0.21.2."""

import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

logits = []
for case in json.load(sys.stdin):
    model = AutoModelForCausalLM.from_pretrained(case["model"], dtype=torch.float32)
    if case["adapter"]:
        model = PeftModel.from_pretrained(model, case["adapter"])
    else:
        AutoTokenizer.from_pretrained(case["model"])
    with torch.no_grad():
        logits.append(model.eval()(torch.tensor([case["ids"]])).logits[0].flatten().tolist())
json.dump(logits, sys.stdout)
