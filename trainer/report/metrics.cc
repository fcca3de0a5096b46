// SPDX-License-Identifier: MIT
#include "trainer/report/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text/formatted.h"
#include "base/text/grouped_digits.h"
#include "base/text/printable.h"
#include "trainer/report/metrics_line.h"

namespace strata::trainer {
namespace {

constexpr double kLargestWhole = 1LL << 53;  // every whole number up to it is a double
constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// Writes the shortest text that reads back as the same bits.
template <class Number>
std::string json_number(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return "null";  // JSON cannot represent NaN and infinity
  }
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// Keys of metrics are identifiers of Strata and need no escapes.
void append_member(std::string& json, std::string_view key, std::string_view value) {
  json += json.ends_with('{') ? "\"" : ",\"";
  json += key;
  json += "\":";
  json += value;
}

std::string object(const Scalars& scalars) {
  std::string json = "{";
  for (const auto& [name, value] : scalars) append_member(json, name, json_number(value));
  return json + "}";
}

// Returns the length of the part of metrics.jsonl that has steps up to last_step. It consists of whole lines.
uint64_t bytes_until(const std::string& path, int64_t last_step) {
  std::ifstream file(path);
  uint64_t kept = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
    const std::optional<int64_t> step = step_of_line(line);
    if (!step || *step > last_step) break;
  }
  return kept;
}

}  // namespace

Metrics::Metrics(const Options& options)
    : options_(options),
      console_(options.console),
      json_(options.folder + "/metrics.jsonl", bytes_until(options.folder + "/metrics.jsonl", options.resumed_step),
            [this](const std::string& text) { warn(text); }),
      events_(options.folder, options.resumed_step, [this](const std::string& text) { warn(text); }),
      best_(options.folder + "/metrics.jsonl") {
  const std::string path = options.folder + "/samples.jsonl";
  if (std::filesystem::exists(path)) open_samples(bytes_until(path, options.resumed_step));
}

void Metrics::open_samples(uint64_t keep) {
  samples_.emplace(options_.folder + "/samples.jsonl", keep, [this](const std::string& text) { warn(text); });
}

void Metrics::record_step(const StepRecord& record) {
  json_.append(json_line(record));
  events_.append(record.step, scalars_of(record));
  if (++timed_steps_ > 0) {
    milliseconds_sum_ += record.milliseconds;
    add_to_table(record.phases);
  }
  ++steps_since_line_;
  items_since_line_ += record.items;
  milliseconds_since_line_ += record.milliseconds;
  if (record.step % options_.log_every == 0 || record.step == options_.last_step) {
    console_.line(console_line(record));
    steps_since_line_ = items_since_line_ = 0;
    milliseconds_since_line_ = 0;
  }
  console_.progress(record.step, options_.last_step);
}

Metrics::StepRates Metrics::rates_of(const StepRecord& record) const {
  const double items = record.milliseconds > 0 ? 1000 * record.items / record.milliseconds : 0;
  return {.name = options_.item + "_per_second", .items = items, .teraflops = 1e-12 * items * options_.flops_per_item};
}

std::string Metrics::json_line(const StepRecord& record) const {
  const StepRates rates = rates_of(record);
  std::string json = "{";
  append_member(json, "step", json_number(record.step));
  append_member(json, "loss", json_number(record.loss));
  append_member(json, "learning_rate", json_number(record.learning_rate));
  append_member(json, "gradient_norm", json_number(record.gradient_norm));
  append_member(json, rates.name, json_number(rates.items));
  append_member(json, "model_teraflops_per_rank", json_number(rates.teraflops));
  append_member(json, "milliseconds", json_number(record.milliseconds));
  append_member(json, "memory_bytes", json_number(record.memory_bytes));
  if (record.loss_scale) append_member(json, "loss_scale", json_number(*record.loss_scale));
  if (record.skipped) append_member(json, "skipped", "true");
  if (!record.phases.empty()) append_member(json, "phases", object(record.phases));
  return json + "}\n";
}

Scalars Metrics::scalars_of(const StepRecord& record) const {
  const StepRates rates = rates_of(record);
  Scalars scalars = {{"loss", record.loss},
                     {"learning_rate", record.learning_rate},
                     {"gradient_norm", record.gradient_norm},
                     {rates.name, rates.items},
                     {"model_teraflops_per_rank", rates.teraflops},
                     {"milliseconds", record.milliseconds},
                     {"memory_bytes", static_cast<double>(record.memory_bytes)}};
  if (record.loss_scale) scalars.emplace_back("loss_scale", *record.loss_scale);
  for (const auto& [name, value] : record.phases) scalars.emplace_back("phases/" + name, value);
  return scalars;
}

// Time and rate are means over the steps since the last line.
std::string Metrics::console_line(const StepRecord& record) const {
  const double milliseconds = milliseconds_since_line_ / steps_since_line_;
  const double items_per_second =
      milliseconds_since_line_ > 0 ? 1000 * items_since_line_ / milliseconds_since_line_ : 0;
  return "step: " + std::to_string(record.step) + formatted("  loss: %.4f", record.loss) +
         formatted("  lr: %.1e", record.learning_rate) + formatted("  grad_norm: %.2f", record.gradient_norm) + "  " +
         options_.item + "/s: " + grouped_digits(std::llround(items_per_second)) +
         formatted("  ms: %.0f", milliseconds) + formatted("  memory: %.2f GiB", record.memory_bytes / kGibibyte) +
         (record.loss_scale ? formatted("  loss_scale: %g", *record.loss_scale) : "") +
         (record.skipped ? "  skipped" : "");
}

bool Metrics::has_evaluation(int64_t step) const {
  const std::string begin = std::string(kLineBegin) + std::to_string(step) + ",\"validation_loss\":";
  std::ifstream file(options_.folder + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

void Metrics::record_evaluation(EvaluationRecord record) {
  best_.add(record.step, record.values);
  if (record.step == options_.last_step) {
    for (const auto& value : best_.values()) record.values.push_back(value);
  }
  std::string json = "{";
  append_member(json, "step", json_number(record.step));
  std::string line = "step: " + std::to_string(record.step);
  for (const auto& [name, value] : record.values) {
    append_member(json, name, json_number(value));
    line += "  " + name + formatted(value == std::floor(value) ? ": %.0f" : ": %.4f", value);
  }
  json_.append(json + "}\n");
  events_.append(record.step, record.values);
  console_.line(line);
}

void Metrics::record_sample(const SampleRecord& record) {
  if (!samples_) open_samples(0);
  std::string json = "{";
  append_member(json, "step", json_number(record.step));
  append_member(json, "sample", json_number(record.sample));
  for (const auto& [name, numbers] : record.values) {
    std::string list = "[";
    for (const double number : numbers) {
      if (list.size() > 1) list += ',';
      const bool whole = std::abs(number) < kLargestWhole && number == std::floor(number);
      list += whole ? json_number(static_cast<int64_t>(number)) : json_number(static_cast<float>(number));
    }
    append_member(json, name, list + "]");
  }
  samples_->append(json + "}\n");
}

void Metrics::record_weights(int64_t step, std::string_view weights_sha256) {
  std::string json = "{";
  append_member(json, "step", json_number(step));
  append_member(json, "weights_sha256", "\"" + std::string(weights_sha256) + "\"");
  json_.append(json + "}\n");
}

void Metrics::record_save_begin(const SaveRecord& record) {
  std::string json = "{";
  append_member(json, "step", json_number(record.step));
  append_member(json, "save", object({{"milliseconds", record.milliseconds}, {"waited_milliseconds", record.waited}}));
  json_.append(json + "}\n");
  note("checkpoint of step " + std::to_string(record.step) + ": the step waited " +
       (record.waited > 0 ? formatted("%.0f ms for the save before and ", record.waited) : "") +
       formatted("%.0f ms for a copy", record.milliseconds - record.waited));
}

void Metrics::record_checkpoint_written(int64_t step, int64_t checkpoint) {
  std::string json = "{";
  append_member(json, "step", json_number(step));
  append_member(json, kCheckpointKey, json_number(checkpoint));
  json_.append(json + "}\n");
}

void Metrics::record_resume(const std::vector<std::string>& notes) {
  record_checkpoint_written(options_.resumed_step, options_.resumed_step);
  for (const std::string& note : notes) warn(note);
  note("resumed from step " + std::to_string(options_.resumed_step) +
       (options_.resumed_step < options_.last_step ? "" : ", the last one: nothing is left to train"));
}

void Metrics::record_rollback(int64_t from, const std::vector<std::string>& notes) {
  const int64_t to = options_.resumed_step;
  std::string json = "{";
  append_member(json, "step", json_number(to));
  append_member(json, "rollback", json_number(from));
  json_.append(json + "}\n");
  if (to > 0) record_checkpoint_written(to, to);
  for (const std::string& note : notes) warn(note);
  note("rolled back from step " + std::to_string(from) + " to step " + std::to_string(to));
}

void Metrics::record_bad_sample(int64_t step, const std::string& line) {
  const std::string text =
      nlohmann::json(line).dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  std::string json = "{";
  append_member(json, "step", json_number(step));
  append_member(json, "bad_sample", text);
  json_.append(json + "}\n");
  warn(printable_utf8(line));
}

void Metrics::record_straggler(int64_t step, const Straggler& straggler) {
  std::string json = "{";
  append_member(json, "step", json_number(step));
  std::string found = "{";
  append_member(found, "rank", json_number(straggler.rank));
  append_member(found, "phase", "\"" + std::string(straggler.phase) + "\"");
  append_member(found, "ratio", json_number(straggler.ratio));
  append_member(found, "milliseconds", json_number(straggler.milliseconds));
  append_member(json, "straggler", found + "}");
  json_.append(json + "}\n");
  warn(to_text(straggler));
}

void Metrics::record_spike(int64_t step, const Spike& spike) {
  std::string json = "{";
  append_member(json, "step", json_number(step));
  std::string found = "{";
  append_member(found, "what", "\"" + std::string(spike.what) + "\"");
  append_member(found, "value", json_number(spike.value));
  append_member(found, "usual", json_number(spike.usual));
  append_member(json, "spike", found + "}");
  json_.append(json + "}\n");
  warn(to_text(step, spike));
}

void Metrics::add_to_table(const Scalars& phases) {
  for (const auto& [name, value] : phases) {
    auto sum = std::find_if(phase_sums_.begin(), phase_sums_.end(), [&](const auto& p) { return p.first == name; });
    if (sum == phase_sums_.end()) sum = phase_sums_.insert(sum, {name, 0});
    sum->second += value;
  }
}

void Metrics::record_last_phases(const Scalars& phases) {
  for (const auto& [name, value] : phases) milliseconds_sum_ += value;
  add_to_table(phases);
}

std::string Metrics::phase_table() const {
  if (timed_steps_ <= 0 || phase_sums_.empty()) return "";
  size_t width = std::string_view("the rest").size();
  for (const auto& [name, sum] : phase_sums_) width = std::max(width, name.size());
  std::string table = "phase" + std::string(width - 5, ' ') + "   ms/step   share";
  double rest = milliseconds_sum_;
  const auto row = [&](const std::string& name, double sum) {
    table += "\n" + name + std::string(width - name.size(), ' ') + formatted("%10.2f", sum / timed_steps_) +
             formatted("%6.1f %%", milliseconds_sum_ > 0 ? 100 * sum / milliseconds_sum_ : 0);
    rest -= sum;
  };
  for (const auto& [name, sum] : phase_sums_) row(name, sum);
  if (rest > 5e-4 * milliseconds_sum_) row("the rest", rest);  // shown only if it rounds to a share above 0
  row("step", milliseconds_sum_);
  return table;
}

}  // namespace strata::trainer
