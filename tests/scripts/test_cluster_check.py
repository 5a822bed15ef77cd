"""Runs scripts/cluster-check on two hosts of one rank each, where this machine can make such."""
import os
import subprocess
import sys

from cases import ROOT, run_all

CANNOT_RUN = 77


def ranks_of_two_hosts_agree_and_end_when_the_link_goes_down():
    result = subprocess.run(
        [sys.executable, "-B", os.path.join(ROOT, "scripts", "cluster-check"), "--dyno",
         os.path.join(os.environ["DYNO_BUILD"], "dyno"), "--hosts", "2", "--ranks-per-host", "1"],
        text=True, capture_output=True, check=False, timeout=600)
    if result.returncode == CANNOT_RUN:
        print("it cannot be tested here:", result.stdout.strip())
        return
    assert result.returncode == 0, result
    for check in ("collectives", "steps", "link down", "link down, ddp-bucket:0.02", "link down, fsdp"):
        assert f"OK      {check}:" in result.stdout, (check, result)


run_all(ranks_of_two_hosts_agree_and_end_when_the_link_goes_down)
