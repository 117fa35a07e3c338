// Buying together: agents agree on quantities of p goods, each with wishes of its own, at prices that change.
//
//   f_{i,t}(x) = 1/2 |x - d|^2      d (p,) uniform on [0, 2]: what agent i wishes in round t
//   g_{i,t}(x) = c'x - budget       c (p,) uniform on [1/2, 3/2]: the prices that agent i is quoted
//
// g <= 0 means feasible. x = 0, which must lie in X, is feasible with margin `budget`, which is Slater's condition.
// Replace Functions and Game by yours; the rest serves them as slaternet.v1.Plugin (plugin.proto explains every field).

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstring>
#include <iostream>
#include <map>
#include <mutex>

#include "plugin.grpc.pb.h"

namespace wire = slaternet::v1;
using Vector = std::vector<double>;

// The game cannot be played; the sentence is for the user.
struct CannotPlay : std::runtime_error { using std::runtime_error::runtime_error; };
// The instance is not known any more; the game then describes it again and plays it again from round 1.
struct Forgotten : std::runtime_error { using std::runtime_error::runtime_error; };

// The functions of one agent in one round. They are fixed: asked twice, they answer twice the same.
struct Functions {
  Vector wish, prices;
  double budget;

  double loss(const double* x) const {
    double total = 0;
    for (size_t j = 0; j < wish.size(); ++j) total += (x[j] - wish[j]) * (x[j] - wish[j]);
    return total / 2;
  }

  double constraint(const double* x) const {
    double total = -budget;
    for (size_t j = 0; j < prices.size(); ++j) total += prices[j] * x[j];
    return total;
  }
};

struct Game {
  uint32_t agents, dimension;
  uint64_t seed;
  double budget = 1;
  std::map<uint64_t, std::vector<Functions>> rounds;

  explicit Game(const wire::DescribeRequest& asked)
      : agents(asked.agents()), dimension(asked.dimension()), seed(asked.seed()) {
    google::protobuf::Struct options;  // [adversary.options]
    if (!google::protobuf::util::JsonStringToMessage(asked.options(), &options).ok())
      throw CannotPlay("adversary.options must be a table");
    for (const auto& [name, value] : options.fields()) {
      if (name != "budget") throw CannotPlay("adversary.options." + name + " is not an option; there is budget");
      budget = value.number_value();
    }
    if (!(budget > 0)) throw CannotPlay("adversary.options.budget must be a number above 0");
  }

  // Fix everyone's functions of a round, before anybody may ask about it.
  void play(uint64_t round) {
    std::vector<Functions> everyone(agents);
    for (uint32_t i = 0; i < agents; ++i) {
      everyone[i].budget = budget;
      for (uint32_t j = 0; j < dimension; ++j) {
        everyone[i].wish.push_back(2 * uniform(round, i, j));
        everyone[i].prices.push_back(0.5 + uniform(round, i, dimension + j));
      }
    }
    rounds[round] = std::move(everyone);
  }

  // A number on [0, 1) that belongs to its address (SplitMix64), so that a new instance has the same functions.
  double uniform(uint64_t round, uint64_t agent, uint64_t place) const {
    uint64_t mixed = seed;
    for (uint64_t part : {round, agent, place}) {
      mixed = (mixed ^ part) + 0x9E3779B97F4A7C15;
      mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
      mixed ^= mixed >> 31;
    }
    return static_cast<double>(mixed >> 11) * 0x1p-53;
  }
};

// Arrays travel as bytes, little-endian as on every machine that this is likely to run on.
template <class Number>
std::vector<Number> unpacked(const std::string& bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

void append(std::string* bytes, double number) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
}

class Service final : public wire::Plugin::Service {
  std::map<std::string, Game> games_;
  std::mutex mutex_;

  // Do the work of one call; what it throws becomes the status with which the call ends, and the operator reads it.
  template <class Work>
  grpc::Status answer(Work work) {
    std::lock_guard<std::mutex> one_call_at_a_time(mutex_);
    try {
      work();
      return grpc::Status::OK;
    } catch (const CannotPlay& error) {
      return {grpc::StatusCode::INVALID_ARGUMENT, error.what()};
    } catch (const Forgotten& error) {
      return {grpc::StatusCode::NOT_FOUND, error.what()};
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};
    }
  }

  Game& game(const std::string& instance) {
    auto found = games_.find(instance);
    if (found == games_.end()) throw Forgotten("there is no instance " + instance);
    return found->second;
  }

  static void tell(wire::Methods* methods) {
    methods->set_loss_gradient(true);
    methods->set_constraint_gradient(true);
  }

  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest* asked, wire::DescribeReply* reply) override {
    return answer([&] {
      std::string name = std::to_string(games_.size() + 1);
      games_.emplace(name, Game(*asked));
      reply->set_instance(name);
      reply->set_constraints(1);
      reply->set_rowwise(true);  // an agent's values do not depend on which others are asked about with it
      if (asked->probe()) tell(reply->mutable_methods());
    });
  }

  grpc::Status Play(grpc::ServerContext*, const wire::PlayRequest* asked, wire::PlayReply* reply) override {
    return answer([&] {
      Game& here = game(asked->instance());
      here.play(asked->round());
      here.rounds.erase(here.rounds.begin(), here.rounds.lower_bound(asked->needed()));
      tell(reply->mutable_methods());
    });
  }

  grpc::Status Evaluate(grpc::ServerContext*, const wire::EvaluateRequest* asked, wire::EvaluateReply* reply) override {
    return answer([&] {
      const Game& here = game(asked->instance());
      const auto& everyone = here.rounds.at(asked->round());
      const auto agents = unpacked<uint32_t>(asked->agents());
      const Vector points = unpacked<double>(asked->data());
      const size_t p = here.dimension, s = asked->points();
      if (points.size() != agents.size() * s * p) throw std::length_error("data must hold s points for each agent");
      for (size_t row = 0; row < agents.size() * s; ++row) {
        const Functions& functions = everyone.at(agents[row / s]);
        const double* x = &points[row * p];
        if (asked->values()) {
          append(reply->mutable_f(), functions.loss(x));
          append(reply->mutable_g(), functions.constraint(x));
        }
        for (size_t j = 0; j < p; ++j) {
          if (asked->loss_gradient()) append(reply->mutable_loss_gradient(), x[j] - functions.wish[j]);
          if (asked->constraint_gradient()) append(reply->mutable_constraint_gradient(), functions.prices[j]);
        }
      }
    });
  }
};

int main(int count, char** words) {
  if (count != 3 || std::string(words[1]) != "--port") {
    std::cerr << "usage: " << words[0] << " --port PORT" << std::endl;
    return 2;
  }
  const std::string address = std::string("127.0.0.1:") + words[2];
  grpc::EnableDefaultHealthCheckService(true);
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // no two programs on one port
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) {
    std::cerr << "cannot listen on " << address << std::endl;
    return 1;
  }
  std::cout << "listening on grpc://" << address << std::endl;
  server->Wait();
}
