# SPDX-License-Identifier: MIT
"""Sends rows to Weights & Biases."""
import os
import secrets

import wandb

# This machine may be another than the machine of the run, with another load, other packages and another command.
NOT_OF_THE_RUN = {"WANDB_X_DISABLE_STATS": "true", "WANDB_X_DISABLE_META": "true", "WANDB_X_SAVE_REQUIREMENTS": "false"}


class Wandb:
    """W&B leaves out a row whose number is not above the number of the row before. So rows are numbered by the lines that were sent, and the
    step of the run is a metric, which may go back after a resume."""

    def __init__(self):
        self.run = None

    def create(self, project, name):
        return secrets.token_hex(4)

    def open(self, project, identity, name):
        """Returns how many rows W&B has; None if only the place of this side is known."""
        for variable, value in NOT_OF_THE_RUN.items():
            os.environ.setdefault(variable, value)
        settings = wandb.Settings(console="off", save_code=False, disable_git=True)
        self.run = wandb.init(project=project, id=identity, name=name, resume="allow", settings=settings)
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")
        return self.run.step if self.run.resumed else None

    def configure(self, values):
        self.run.config.update(values, allow_val_change=True)

    def send(self, rows, time, is_repeated):
        for row, step, values in rows:
            self.run.log({"step": step, **values}, step=row, commit=True)

    def finish(self, status):
        self.run.finish(exit_code=1 if status == "FAILED" else 0)
