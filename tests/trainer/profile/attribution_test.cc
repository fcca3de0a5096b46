// SPDX-License-Identifier: MIT
// Checks that work is attributed to its step, phase, layer, op and level by the host's scopes that were open at its
// launch.
#include "trainer/profile/attribution.h"

#include <gtest/gtest.h>

#include "tests/trainer/profile/made_up.h"

namespace strata::trainer::profile {
namespace {

TEST(ScopeTree, FindsTheInnermostOpenScopeOfAThread) {
  MadeUp recording;
  recording.user("outer", 0, 100);
  recording.user("first", 10, 40);
  recording.user("inside", 15, 30);
  recording.user("second", 40, 60);
  recording.user("elsewhere", 0, 1000, kAutograd);
  const ScopeTree tree(recording.scopes);
  EXPECT_EQ(tree.innermost(kLoop, 5), 0);
  EXPECT_EQ(tree.innermost(kLoop, 10), 1);
  EXPECT_EQ(tree.innermost(kLoop, 29), 2);
  EXPECT_EQ(tree.innermost(kLoop, 30), 1);
  EXPECT_EQ(tree.innermost(kLoop, 40), 3);
  EXPECT_EQ(tree.innermost(kLoop, 99), 0);
  EXPECT_EQ(tree.innermost(kLoop, 100), ScopeTree::kNone);
  EXPECT_EQ(tree.innermost(kAutograd, 100), 4);
  EXPECT_EQ(tree.innermost(kReader, 5), ScopeTree::kNone);
  EXPECT_EQ(tree.parent(2), 1);
  EXPECT_EQ(tree.parent(3), 0);
  EXPECT_EQ(tree.parent(4), ScopeTree::kNone);
  EXPECT_EQ(tree.own_times(), (std::vector<int64_t>{50, 15, 15, 20, 1000}));
}

TEST(ScopeTree, TheOuterOfTwoThatStartTogetherIsTheLongerOne) {
  MadeUp recording;
  recording.user("inner", 0, 10);
  recording.user("outer", 0, 20);
  const ScopeTree tree(recording.scopes);
  EXPECT_EQ(tree.innermost(kLoop, 0), 0);
  EXPECT_EQ(tree.parent(0), 1);
}

// One step: a layer with an op of Strata that has a backward of its own, an op that autograd differentiates, and the
// rest.
MadeUp small_step() {
  MadeUp recording;
  recording.user("step 7", 0, 1000);
  recording.user("data", 10, 20);
  recording.user("forward", 100, 400);
  recording.user("layer 3", 110, 300);
  recording.user("rms_norm/triton", 120, 150);
  recording.user("linear/aten", 160, 250);
  recording.function("aten::t", 165, 170, 41);  // creates no node
  recording.function("aten::addmm", 175, 240, 41);
  recording.function("aten::gelu", 241, 249, 42);
  recording.function("aten::add", 310, 350, 43);
  recording.layers.push_back({.layer = 3, .thread_number = 1, .first = 40, .end = 43});
  recording.user("backward", 400, 800);
  recording.function("autograd::engine::evaluate_function: AddBackward0", 410, 450, 43, kAutograd);
  recording.backward("AddBackward0", 412, 440, 43);
  recording.backward("AddmmBackward0", 460, 560, 41);
  recording.function("aten::mm", 470, 500, -1, kAutograd);
  recording.backward("torch::autograd::CppNode<RmsNormFunction>", 600, 700, 40);
  recording.user("rms_norm/triton/backward", 610, 690, kAutograd);
  recording.user("optimizer", 800, 990);
  recording.user("adamw/cuda", 810, 900);
  recording.user("all_reduce loss and gradient norm", 910, 950);
  recording.user("wait for all_gather blocks.5", 960, 980);
  return recording;
}

TEST(Attribution, OfTheForward) {
  const MadeUp recording = small_step();
  const Attribution attribution(recording);
  const Origin norm = attribution.launch_origin(kLoop, 130);
  EXPECT_EQ(norm.step, 7);
  EXPECT_EQ(norm.layer, 3);
  EXPECT_EQ(norm.phase, "forward");
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_EQ(norm.level, "triton");
  EXPECT_FALSE(norm.backward);
  const Origin linear = attribution.launch_origin(kLoop, 200);
  EXPECT_EQ(linear.op, "linear");
  EXPECT_EQ(linear.level, "aten");
  EXPECT_NE(linear.call, norm.call);
  EXPECT_EQ(linear.call, attribution.launch_origin(kLoop, 245).call);
  const Origin add = attribution.launch_origin(kLoop, 320);
  EXPECT_EQ(add.op, "aten::add");
  EXPECT_EQ(add.level, "");
  EXPECT_EQ(add.layer, -1);
  EXPECT_EQ(add.call, -1);
  EXPECT_EQ(attribution.launch_origin(kLoop, 15).phase, "data");
}

TEST(Attribution, OfTheBackwardByTheNodesOfTheForward) {
  const MadeUp recording = small_step();
  const Attribution attribution(recording);
  const Origin linear = attribution.launch_origin(kAutograd, 480);
  EXPECT_EQ(linear.op, "linear");
  EXPECT_EQ(linear.level, "aten");
  EXPECT_TRUE(linear.backward);
  EXPECT_EQ(linear.layer, 3);
  EXPECT_EQ(linear.step, 7);
  EXPECT_EQ(linear.phase, "backward");
  const Origin norm = attribution.launch_origin(kAutograd, 650);
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_EQ(norm.level, "triton");
  EXPECT_TRUE(norm.backward);
  EXPECT_EQ(norm.layer, 3);
  const Origin add = attribution.launch_origin(kAutograd, 430);
  EXPECT_EQ(add.op, "AddBackward0");
  EXPECT_EQ(attribution.launch_origin(kAutograd, 445).op, "AddBackward0") << "the engine, around the node";
  EXPECT_EQ(add.level, "");
  EXPECT_EQ(add.layer, -1);
}

// On CPUs the autograd engine runs in the thread of the loop.
TEST(Attribution, TheEngineMakesNoNodes) {
  MadeUp recording = small_step();
  recording.function("autograd::engine::evaluate_function: AddmmBackward0", 500, 600, 41);
  recording.scopes.back().node_thread_number = 1;
  recording.backward("AddmmBackward0", 510, 590, 41, kLoop);
  const Origin origin = Attribution(recording).launch_origin(kLoop, 550);
  EXPECT_EQ(origin.op, "linear");
  EXPECT_TRUE(origin.backward);
}

TEST(Attribution, OfARecomputedForward) {
  MadeUp recording = small_step();
  recording.backward("torch::autograd::CppNode<Recompute>", 710, 790, 42);
  recording.user("rms_norm/triton", 720, 730, kAutograd);
  const Origin norm = Attribution(recording).launch_origin(kAutograd, 725);
  EXPECT_EQ(norm.op, "rms_norm");
  EXPECT_FALSE(norm.backward);
  EXPECT_EQ(norm.layer, 3);
  EXPECT_EQ(norm.phase, "backward");
}

TEST(Attribution, NodesOfAnotherThreadWithTheSameNumberAreOthers) {
  MadeUp recording = small_step();
  recording.add(Scope::Kind::backward, "AddmmBackward0", 710, 790, kAutograd).node = 41;
  recording.scopes.back().node_thread_number = 2;
  const Origin origin = Attribution(recording).launch_origin(kAutograd, 720);
  EXPECT_EQ(origin.op, "AddmmBackward0");
  EXPECT_EQ(origin.layer, -1);
}

TEST(Attribution, OfCollectivesAndOfTheOptimizer) {
  const MadeUp recording = small_step();
  const Attribution attribution(recording);
  EXPECT_EQ(attribution.launch_origin(kLoop, 850).op, "adamw");
  EXPECT_EQ(attribution.launch_origin(kLoop, 850).phase, "optimizer");
  const Origin reduce = attribution.launch_origin(kLoop, 920);
  EXPECT_EQ(reduce.op, "all_reduce");
  EXPECT_EQ(reduce.level, kCollective);
  EXPECT_EQ(reduce.layer, -1);
  const Origin wait = attribution.launch_origin(kLoop, 970);
  EXPECT_EQ(wait.op, "all_gather");
  EXPECT_EQ(wait.level, kWait);
  EXPECT_EQ(wait.layer, 5);

  MadeUp of_graph_network = small_step();
  of_graph_network.user("reduce_scatter layers.2", 991, 999);
  EXPECT_EQ(Attribution(of_graph_network).launch_origin(kLoop, 995).layer, 2);
}

TEST(Attribution, OfTheThreadThatReadsBatchesAndOfWhatLiesBetweenSteps) {
  const MadeUp recording = small_step();
  const Attribution attribution(recording);
  EXPECT_EQ(attribution.launch_origin(kReader, 500).step, -1);
  EXPECT_EQ(attribution.launch_origin(kReader, 500).phase, "data");
  EXPECT_EQ(attribution.launch_origin(kLoop, 2000).step, -1);
}

}  // namespace
}  // namespace strata::trainer::profile
