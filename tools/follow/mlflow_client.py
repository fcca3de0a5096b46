# SPDX-License-Identifier: MIT
"""Sends rows to MLflow: to a tracking server, or to files."""
from mlflow import MlflowClient
from mlflow.entities import Metric, Param

MOST_METRICS, MOST_PARAMS = 1000, 100  # of a request
LONGEST_VALUE = 500


class Mlflow:
    def __init__(self):
        self.client, self.run = MlflowClient(), None

    def create(self, project, name):
        found = self.client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self.client.create_experiment(project)
        return self.client.create_run(experiment, run_name=name).info.run_id

    def open(self, project, identity, name):
        self.run = identity
        self.client.update_run(identity, status="RUNNING")

    def configure(self, values):
        """Parameters of MLflow never change. What a resumed run has changed becomes a tag."""
        texts = {name: str(value)[:LONGEST_VALUE] for name, value in values.items()}
        there = self.client.get_run(self.run).data.params
        new = [Param(name, text) for name, text in texts.items() if name not in there]
        for i in range(0, len(new), MOST_PARAMS):
            self.client.log_batch(self.run, params=new[i:i + MOST_PARAMS])
        for name, text in texts.items():
            if there.get(name, text) != text:
                self.client.set_tag(self.run, "resumed." + name, text)

    def send(self, rows, time, is_repeated):
        """All these rows and no others have `time`, so that rows which a crash has cut off are found again."""
        metrics = [Metric(name, value, time, step) for _, step, values in rows for name, value in values.items()]
        if is_repeated:
            there = {(name, metric.step, str(metric.value)) for name in {metric.key for metric in metrics}
                     for metric in self.client.get_metric_history(self.run, name) if metric.timestamp == time}  # fmt: skip
            metrics = [metric for metric in metrics if (metric.key, metric.step, str(metric.value)) not in there]
        for i in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.run, metrics=metrics[i:i + MOST_METRICS])

    def finish(self, status):
        if status:
            self.client.set_terminated(self.run, status)
