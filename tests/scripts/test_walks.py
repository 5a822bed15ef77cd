"""Follows the pages of docs/ that add an op, a kernel and a pass, as a reader would."""
import os
import tempfile

from cases import run_all
from walk import Walk

BUILD = os.environ["DYNO_BUILD"]


def follow(page):
    with tempfile.TemporaryDirectory() as tree:
        Walk(page, BUILD, tree).follow()


def adding_an_op_works():
    follow("adding-an-op.md")


def adding_a_kernel_works():
    follow("adding-a-kernel.md")


def adding_a_pass_works():
    follow("adding-a-pass.md")


run_all(adding_an_op_works, adding_a_kernel_works, adding_a_pass_works)
