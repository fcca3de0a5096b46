// SPDX-License-Identifier: MIT
#include "trainer/tasks/load_run_config.h"

#include "configs/config_errors.h"
#include "modules/config/kernels_check.h"
#include "trainer/tasks/declared_model.h"

namespace strata::trainer {

LoadedConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides) {
  LoadedConfig loaded = load_trainer_config(path, overrides);
  check_modules(loaded);
  return loaded;
}

void check_modules(const LoadedConfig& loaded) {
  const TrainerConfig& config = loaded.config;
  const modules::LinearFormatsConfig& formats = config.precision.linear;
  const bool has_formats = formats.format != modules::LinearFormat::none;
  const bool names_modules = !config.kernels.modules.empty() || !config.precision.modules.empty();
  if (!names_modules && !has_formats && !config.sparsity.is_on()) return;
  const std::vector<modules::DeclaredModule> modules = declared_model(config).modules;
  configs::ErrorList errors;
  configs::Checks checks([](const std::string&) { return true; },
                         [&](const std::string& path, const std::string& message) {
                           errors.add(configs::place_of(loaded.places, path), path, message);
                         });
  configs::Checks kernels = checks.within("kernels"), precision = checks.within("precision");
  modules::check_modules(config.kernels, modules, kernels);
  check_modules(config.precision, modules, precision);
  configs::Checks linear = precision.within("linear");
  modules::check_modules(formats, modules, linear);
  configs::Checks sparsity = checks.within("sparsity");
  modules::check_modules(config.sparsity, formats, modules, sparsity);
  errors.throw_if_any();
}

}  // namespace strata::trainer
