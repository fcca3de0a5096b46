// SPDX-License-Identifier: MIT
#include "trainer/checkpoint/checkpoint_loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files/file_io.h"
#include "base/text/printable.h"
#include "trainer/checkpoint/safetensors.h"

namespace strata::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDifferences = 20;

// Returns a note of one line, a line break and the text of the manifest. The note names files that do not belong to the
// checkpoint; it is empty if there are none. Throws Damaged if the folder lacks the manifest or one of its files.
std::string read_manifest(const std::string& folder) {
  if (!fs::is_directory(fs::symlink_status(folder))) throw Damaged(folder + ": expected a folder");
  std::map<std::string, fs::file_type> listed;
  for (const auto& entry : fs::directory_iterator(folder)) {
    listed[entry.path().filename()] = entry.symlink_status().type();
  }
  const auto take = [&](const std::string& name) {
    const auto entry = listed.extract(name);
    const std::string path = folder + "/" + name;
    if (entry.empty()) throw Damaged(path + ": No such file, and it belongs to the checkpoint");
    if (entry.mapped() == fs::file_type::symlink)
      throw Damaged(path + ": is a symbolic link, and none is followed here");
    if (entry.mapped() != fs::file_type::regular) throw Damaged(path + ": expected a regular file");
    return path;
  };
  const std::string path = take(kManifestName);
  if (const uint64_t bytes = InputFile(path).bytes(); bytes > kLargestManifest) {
    throw Damaged(path + ": has " + std::to_string(bytes) + " bytes, expected at most " +
                  std::to_string(kLargestManifest));
  }
  const std::string text = read_text_file(path, kLargestManifest);
  const Manifest manifest = parse_manifest(text, path);
  if (fs::path(folder).filename() != checkpoint_folder_name(manifest.step)) {
    throw Damaged(path + ": is of step " + std::to_string(manifest.step));
  }
  for (const StoredFile& file : manifest.files) take(file.name);
  std::string note;
  if (!listed.empty()) {
    note = printable(folder + "/" + listed.begin()->first) + ": is not in the manifest and is ignored" +
           (listed.size() > 1 ? ", as are " + std::to_string(listed.size() - 1) + " more" : "");
  }
  return note + "\n" + text;
}

void verify_file(const std::string& folder, const StoredFile& file) {
  const std::string path = folder + "/" + file.name;
  const uint64_t bytes = InputFile(path).bytes();
  if (bytes != file.bytes) {
    throw Damaged(path + ": has " + std::to_string(bytes) + " bytes, the manifest says " + std::to_string(file.bytes));
  }
  if (sha256_of_file(path) != file.sha256) {
    throw Damaged(path + ": its SHA-256 is not that of the manifest: the contents have changed");
  }
}

// Like gather_slow_results, but if Damaged is the only error of any rank, every rank throws Damaged.
std::vector<std::string> gather_undamaged(const Ranks& ranks, const std::string& purpose,
                                          const std::function<std::string()>& work) {
  constexpr char kGood = '+', kDamaged = '-';
  std::vector<std::string> results = gather_slow_results(ranks, purpose, [&] {
    try {
      return kGood + work();
    } catch (const Damaged& damage) {
      return kDamaged + std::string(damage.what());
    }
  });
  std::string problems;
  for (std::string& result : results) {
    if (result[0] == kDamaged) problems += (problems.empty() ? "" : "; ") + result.substr(1);
    result.erase(0, 1);
  }
  if (!problems.empty()) throw Damaged(problems);
  return results;
}

Manifest verify_checkpoint(const std::string& folder, const Ranks& ranks, std::string& note) {
  const std::string text = gather_undamaged(ranks, "reading the manifest of " + folder,
                                            [&] { return ranks.rank == 0 ? read_manifest(folder) : std::string(); })[0];
  const size_t line = text.find('\n');
  note = text.substr(0, line);
  Manifest manifest;
  gather_undamaged(ranks, "verifying the files of " + folder, [&] {
    manifest = parse_manifest(std::string_view(text).substr(line + 1), folder + "/" + kManifestName);
    for (size_t i = ranks.rank; i < manifest.files.size(); i += ranks.size) verify_file(folder, manifest.files[i]);
    return std::string();
  });
  return manifest;
}

// Returns the properties that load_checkpoint compares, such as "F32 [256, 128]".
std::string dtype_and_shape(const std::string& dtype, const std::vector<int64_t>& shape) {
  return dtype + " " + shape_text(shape);
}

// A range of bytes to read from one file.
struct Transfer {
  int64_t file;
  const std::string* tensor;
  uint64_t first, bytes;  // byte range within the stored piece
  uint64_t stored_bytes;  // size of the stored piece
  char* into;
};

void append_transfers(const std::string& name, const StoredTensor& stored, int64_t offset, const at::Tensor& target,
                      std::vector<Transfer>& transfers) {
  const int64_t width = target.element_size(), end = offset + target.numel();
  for (const StoredPiece& piece : stored.pieces) {
    const int64_t first = std::max(offset, piece.offset), last = std::min(end, piece.offset + piece.count);
    if (first >= last) continue;
    transfers.push_back({piece.file, &name, static_cast<uint64_t>((first - piece.offset) * width),
                         static_cast<uint64_t>((last - first) * width), static_cast<uint64_t>(piece.count * width),
                         static_cast<char*>(target.data_ptr()) + (first - offset) * width});
  }
}

// A tensor on a device, and the host memory into which its elements are read.
struct Upload {
  at::Tensor device, host;
};

// Fills the pieces that are on the host, and returns uploads for the others.
std::vector<Upload> read_files(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces) {
  std::vector<Transfer> transfers;
  std::vector<Upload> uploads;
  for (const TensorPiece& piece : pieces) {
    const auto stored = found.manifest.tensors.find(piece.tensor);
    if (stored == found.manifest.tensors.end()) {
      throw Error(ExitCode::configuration, found.path + ": has no tensor " + piece.tensor);
    }
    const std::string wanted = dtype_and_shape(dtype_name(piece.data), piece.shape);
    const std::string in_checkpoint = dtype_and_shape(stored->second.dtype, stored->second.shape);
    if (wanted != in_checkpoint) {
      throw Error(ExitCode::configuration,
                  found.path + ": " + piece.tensor + " is " + in_checkpoint + ", expected " + wanted);
    }
    at::Tensor target = piece.data;
    if (!target.is_cpu()) {
      target = at::empty(piece.data.sizes(), piece.data.options().device(at::kCPU));
      uploads.push_back({piece.data, target});
    }
    append_transfers(piece.tensor, stored->second, piece.offset, target, transfers);
  }
  // Only one file is open at a time, because a run of a thousand ranks has written a thousand files.
  std::stable_sort(transfers.begin(), transfers.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  std::unique_ptr<SafetensorsFile> file;
  int64_t opened = -1;
  for (const Transfer& transfer : transfers) {
    const std::string path = found.path + "/" + found.manifest.files[transfer.file].name;
    if (opened != transfer.file) {
      file = std::make_unique<SafetensorsFile>(path);
      opened = transfer.file;
    }
    const SafetensorsEntry* const entry = file->find(*transfer.tensor);
    if (entry == nullptr || entry->bytes != transfer.stored_bytes) {
      throw Error(ExitCode::storage,
                  path + ": does not hold the piece of " + *transfer.tensor + " that the manifest names");
    }
    file->read(*entry, transfer.first, transfer.into, transfer.bytes);
  }
  return uploads;
}

// The dtype and shape of each tensor of a model, by name.
using ModelTensors = std::map<std::string, std::string>;

// Gathers the tensors of all ranks, because a rank may hold no element of a tensor. Collective.
ModelTensors model_tensors(const std::vector<TensorPiece>& pieces, const Ranks& ranks) {
  nlohmann::json own_tensors = nlohmann::json::object();
  for (const TensorPiece& piece : pieces) {
    own_tensors[piece.tensor] = dtype_and_shape(dtype_name(piece.data), piece.shape);
  }
  ModelTensors model;
  for (const std::string& text : ranks.gather(own_tensors.dump())) {
    model.merge(nlohmann::json::parse(text).get<ModelTensors>());
  }
  return model;
}

// Returns a sentence for each tensor that the checkpoint and the model do not have alike.
std::vector<std::string> differences_between(const std::map<std::string, StoredTensor>& checkpoint,
                                             const ModelTensors& model) {
  std::vector<std::string> differences;
  for (const auto& [name, stored] : checkpoint) {
    const std::string in_checkpoint = dtype_and_shape(stored.dtype, stored.shape);
    const auto wanted = model.find(name);
    if (wanted == model.end()) {
      differences.push_back(name + ": " + in_checkpoint + " in the checkpoint, not in the model");
    } else if (wanted->second != in_checkpoint) {
      differences.push_back(name + ": " + in_checkpoint + " in the checkpoint, " + wanted->second + " in the model");
    }
  }
  for (const auto& [name, wanted] : model) {
    if (!checkpoint.contains(name)) {
      differences.push_back(name + ": not in the checkpoint, " + wanted + " in the model");
    }
  }
  return differences;
}

}  // namespace

std::optional<FoundCheckpoint> find_checkpoint(const FindOptions& options, const Ranks& ranks) {
  const std::string listed = gather_results(ranks, [&] {  // the list of rank 0
    return nlohmann::json(ranks.rank == 0 ? list_checkpoints(options.folder) : std::vector<int64_t>()).dump();
  })[0];
  std::vector<int64_t> steps = nlohmann::json::parse(listed);
  if (options.step) {
    std::erase_if(steps, [&](int64_t step) { return step != *options.step; });
  }
  if (steps.empty()) {
    if (!options.required && !options.step) return std::nullopt;
    throw Error(ExitCode::storage, options.folder + ": no checkpoint" +
                                       (options.step ? " of step " + std::to_string(*options.step) : "") +
                                       "; one must be there");
  }
  FoundCheckpoint found;
  for (const int64_t step : steps) {
    found.path = options.folder + "/" + checkpoint_folder_name(step);
    const std::string name = "checkpoint of step " + std::to_string(step);
    std::string note;
    try {
      found.manifest = verify_checkpoint(found.path, ranks, note);
    } catch (const Damaged& damage) {
      found.rejected.push_back(step);
      found.notes.push_back(name + " rejected: " + damage.what());
      continue;
    } catch (const Error& error) {
      if (error.code() != ExitCode::storage) throw;  // that a rank was lost says nothing about the files
      throw Error(ExitCode::storage,
                  name + " could not be read, which does not show that it is damaged: " + error.what() +
                      "\nStart again. To use an older one, move " + found.path + " to another place.");
    }
    if (!note.empty()) found.notes.push_back(note);
    if (step != steps.front()) {
      found.notes.push_back("using the checkpoint of step " + std::to_string(step) + ": " +
                            std::to_string(steps.front() - step) + " steps are lost");
    }
    return found;
  }
  std::string message = options.folder + ": no checkpoint can be loaded";
  for (const std::string& note : found.notes) message += "\n  " + note;
  throw Error(ExitCode::storage, message + "\nTo start from nothing, give another run.folder.");
}

void load_checkpoint(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces, const Ranks& ranks) {
  const std::vector<std::string> differences =
      differences_between(found.manifest.tensors, model_tensors(pieces, ranks));
  if (!differences.empty()) {
    std::string message = found.path + " is of another model:";
    for (size_t i = 0; i < std::min(kMostDifferences, differences.size()); ++i) message += "\n  " + differences[i];
    if (differences.size() > kMostDifferences) {
      message += "\n  and " + std::to_string(differences.size() - kMostDifferences) + " more";
    }
    throw Error(ExitCode::configuration, message);
  }
  std::vector<Upload> uploads;
  gather_slow_results(ranks, "reading " + found.path, [&] {
    uploads = read_files(found, pieces);
    return std::string();
  });
  gather_results(ranks, [&] {  // in this thread, whose stream orders the copies after what was queued before
    for (const Upload& upload : uploads) upload.device.copy_(upload.host);
    return std::string();
  });
}

void read_pieces(const FoundCheckpoint& found, const std::vector<TensorPiece>& pieces) {
  for (const Upload& upload : read_files(found, pieces)) upload.device.copy_(upload.host);
}

}  // namespace strata::trainer
