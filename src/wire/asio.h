// The one place that includes Asio, so that its cost and its macros stay here. Only .cc files and internal headers of wire include this.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
