# SPDX-License-Identifier: MIT
"""What evaluations show of single samples (samples.jsonl): texts whose tokens are colored by their losses, and labels of images."""
import bisect
import math
import os
import re

from checked_values import is_finite, object_of
from growing_file import LONGEST_LINE, lines_of
from markup import absent, details, escaped, paragraph, table
from token_texts import TokenTexts

BEGIN = re.compile(rb'\{"step":(\d{1,15}),"sample":(\d{1,3}),')
MOST_BYTES = 700_000  # of all texts of a page with their colors
MOST_SAMPLES, MOST_STEPS, MOST_LETTERS = 8, 4, 64  # of a run; of a run that is alone in a page; of a token
LOSSES = (0.5, 1, 2, 3, 4, 6, 8)  # where the next color begins


def places_of(folder):
    """Returns {step: {sample: the byte at which its last line begins}}."""
    path, places, begin = os.path.join(folder, "samples.jsonl"), {}, 0
    if not os.path.isfile(path):  # a read of a pipe would wait for ever
        return places
    with open(path, "rb") as file:
        for line, end in lines_of(file):
            if found := BEGIN.match(line):
                places.setdefault(int(found.group(1)), {})[int(found.group(2))] = begin
            begin = end
    return places


def spread(values, most):
    """Returns at most `most` of the values, spread evenly, with the first and the last. A single one is the last."""
    last = len(values) - 1
    return values if last < most else [values[last - i * last // max(most - 1, 1)] for i in reversed(range(most))]


def read_record(folder, place, step, sample):
    """Returns the record of a line, or None if it is damaged, too long, or no longer there: a run that resumes cuts the file back."""
    try:
        with open(os.path.join(folder, "samples.jsonl"), "rb") as file:
            file.seek(place)
            record = object_of(file.readline(LONGEST_LINE)) or {}
    except FileNotFoundError:
        return None
    if (record.get("step"), record.get("sample")) != (step, sample):
        return None
    lists = [record.get(name) for name in (("tokens", "losses", "predictions") if "tokens" in record else ("label", "prediction", "probability"))]
    if not all(isinstance(each, list) and len(each) == len(lists[0]) > 0 for each in lists):
        return None
    if "tokens" in record and not all(type(token) is int for token in lists[0] + lists[2]):
        return None
    return record


def spans(record, texts, most):
    """Returns a text of at most `most` bytes. Each token has the color of its loss, and a line below if it was the most probable one."""
    tokens, losses, predictions = record["tokens"], record["losses"], record["predictions"]

    def shown(token):
        text = texts(token)
        text = text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "..."
        return text.replace("\n", "\u21b5\n")

    parts, size = [f"<span>{escaped(shown(tokens[0]))}</span>"], 0
    for i, token in enumerate(tokens[1:]):
        if not is_finite(losses[i]):
            part = f"<span>{escaped(shown(token))}</span>"
        else:
            right = predictions[i] == token
            kind = f"loss-{bisect.bisect_right(LOSSES, losses[i])}" + (" right" if right else "")
            more = "" if right else ", expected: " + shown(predictions[i]).strip("\n")
            part = f'<span class="{kind}" title="{losses[i]:.2f}{escaped(more)}">{escaped(shown(token))}</span>'
        size += len(part.encode())
        if size > most:
            rest = paragraph(f"The page shows {len(parts)} of these {len(tokens)} tokens.")
            break
        parts.append(part)
    else:
        rest = ""
    return f'<p class="tokens">{"".join(parts)}</p>\n' + rest


def text_of(record, sample, texts, most):
    losses = [float(loss) for loss in record["losses"] if is_finite(loss)]
    mean = sum(losses) / len(losses) if losses else math.nan  # math.fsum fails if a damaged file makes the sum too large
    return paragraph(f"Sample {sample} after step {record['step']}: mean loss {mean:.4f} of {len(losses)} tokens.") + spans(record, texts, most)


def text_samples(run, records, most):
    """`records` is {sample: records by step}."""
    texts = TokenTexts(run.folder, run.configuration.get("model.vocabulary", ("", ""))[0])
    scale = "".join(f'<span class="loss-{i}"> {name} </span>' for i, name in enumerate((f"below {LOSSES[0]}", *(f"from {loss}" for loss in LOSSES))))
    result = paragraph("Each token has the color of its loss in nats. A line below it says that the model expected this token more than all others; "
                       "the token that it expected instead stands in the title.")  # fmt: skip
    result += f'<p class="tokens">{scale}</p>\n' + (absent(texts.note) if texts.note else "")
    most //= sum(map(len, records.values()))
    for sample, sample_records in sorted(records.items()):
        *earlier, last = sample_records
        result += text_of(last, sample, texts, most)
        if earlier:
            steps = ", ".join(str(record["step"]) for record in earlier)
            result += details(f"Sample {sample} after step {steps}", "".join(text_of(record, sample, texts, most) for record in earlier))
    return result


def image_samples(records):
    steps = sorted({record["step"] for sample_records in records.values() for record in sample_records})
    rows = []
    for sample, sample_records in sorted(records.items()):
        by_step = {record["step"]: record for record in sample_records}
        cells = [by_step.get(step, {}) for step in steps]
        label = sample_records[-1]["label"][0]
        rows.append([sample, "not usable" if label is None else label, *(cell_of(cell) for cell in cells)])
    text = "The class that the model expects of each validation image, and the probability that it gives to the label."
    return paragraph(text) + table(["image", "label", *(f"after step {step}" for step in steps)], rows, range(len(steps) + 2))


def cell_of(record):
    if not record:
        return ""
    prediction, probability = record["prediction"][0], record["probability"][0]
    return f"{prediction}, {probability:.4f}" if is_finite(probability) else str(prediction)


def sample_section(run, runs):
    """Returns what the run shows of its samples. `runs` is the number of runs in the page."""
    if not run.samples:
        return absent("No samples: `evaluation.samples=4` shows the losses of each token of four validation texts, or the classes of four images.")
    steps = spread(sorted(run.samples), MOST_STEPS if runs == 1 else 1)
    records, damaged = {}, 0
    for step in steps:
        for sample, place in sorted(run.samples[step].items())[:MOST_SAMPLES]:
            record = read_record(run.folder, place, step, sample)
            if record is None:
                damaged += 1
            else:
                records.setdefault(sample, []).append(record)
    result = paragraph("These are the first samples of the validation data, the same after each evaluation. Others may look different.")
    result += paragraph(f"Lines of samples.jsonl that are damaged and left out: {damaged}.") if damaged else ""
    texts = {sample: found for sample, found in records.items() if all("tokens" in record for record in found)}
    images = {sample: found for sample, found in records.items() if not any("tokens" in record for record in found)}
    return result + (text_samples(run, texts, MOST_BYTES // runs) if texts else "") + (image_samples(images) if images else "")
