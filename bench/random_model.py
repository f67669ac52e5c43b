"""Write GPT-2 (124 M parameters) with random weights as a Hugging Face directory: python random_model.py OUT_DIR

The weights are those that transformers gives a new model under seed 1, in fp32. Both sides of bench/versus-pytorch start from this file.
"""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(1)
GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).save_pretrained(sys.argv[1])
