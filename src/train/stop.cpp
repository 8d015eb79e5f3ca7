// SPDX-FileCopyrightText: 2026 The Shardmark authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>

namespace shardmark {

namespace {

/// Why to stop, in order of precedence: where ranks have different reasons, the last one counts.
enum class Reason : int { none, deadline, term, user };
constexpr std::array reason_names = {"nothing", "deadline", "SIGTERM", "SIGUSR1"};
constexpr std::array signals = {SIGTERM, SIGUSR1};

std::atomic<int> noted = 0;  // a Reason
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");
struct sigaction before[signals.size()];
bool noting_always = false;  // from note_signals() on

extern "C" void note_signal(int signal) {
  const int reason = static_cast<int>(signal == SIGUSR1 ? Reason::user : Reason::term);
  if (noted.load(std::memory_order_relaxed) < reason) noted.store(reason, std::memory_order_relaxed);
}

std::optional<double> parse_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::optional<double> parse_local_time(const std::string& text) {
  std::tm time = {};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr || *end != '\0') return {};
  time.tm_isdst = -1;
  const int day = time.tm_mday;
  const std::time_t seconds = std::mktime(&time);
  if (time.tm_mday != day) return {};  // 31 February
  return static_cast<double>(seconds);
}

void install_handlers() {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before[i]);
}

}  // namespace

void note_signals() {
  install_handlers();
  noting_always = true;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double parse_deadline(const std::string& text, double now) {
  const bool relative = text.starts_with('+');
  std::optional<double> value = parse_number(relative ? text.substr(1) : text);
  if (value && *value < 0) value.reset();
  if (value && relative) *value += now;
  if (!value && !relative) value = parse_local_time(text);
  // One that has just passed ends a job's last link in order; one of long ago is a mistake.
  constexpr double day = 86400;
  if (value && *value + day < now && !relative)
    throw DeckError(fmt::format("--deadline {} is over: it is {:.0f} now, in Unix seconds", text, now));
  if (value) return *value;
  throw DeckError(fmt::format(
      "--deadline \"{}\" is no time; valid: Unix seconds, a local time like 2026-01-31T18:30:00, or "
      "+SECONDS from now",
      text));
}

StopListener::StopListener(const Communicator& world, std::optional<double> deadline)
    : world_(world), deadline_(deadline) {
  if (noting_always) return;
  noted = 0;
  install_handlers();
}

StopListener::~StopListener() {
  if (noting_always) return;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before[i], nullptr);
}

double StopListener::margin(bool begins_step) const {
  return 1 + 1.25 * (longest_save_ + (begins_step ? longest_step_ : longest_gap_));
}

void StopListener::check(bool begins_step) {
  const double now = wall_clock();
  if (last_check_ > 0) longest_gap_ = std::max(longest_gap_, now - last_check_);
  last_check_ = now;
  int reason = noted.load(std::memory_order_relaxed);
  if (reason == 0 && deadline_ && now + margin(begins_step) > *deadline_)
    reason = static_cast<int>(Reason::deadline);
  reason = world_.host_max(reason);
  if (reason != 0) throw StopRequest{reason_names[static_cast<std::size_t>(reason)]};
}

void StopListener::stepped(double seconds) {
  longest_step_ = std::max(longest_step_, seconds);
}

void StopListener::saved(double seconds) {
  longest_save_ = std::max(longest_save_, seconds);
  last_check_ = 0;
}

}  // namespace shardmark
